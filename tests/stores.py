"""Small stores of random weights for tests: built in a moment, with more layers and groups than the arenas hold."""

import json
from pathlib import Path

import tokenizers

from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming.pack import pack_synthetic
from estream_lab.streaming.store import manifest_checksum

SPEC = synthetic_spec(hidden=64, ffn=32, layers=3, experts=10, top_k=2, heads=2, vocab=96, context=128)


def synthetic_store(folder: Path, quant: str = "q4_0", seed: int = 0) -> Path:
    """A store of SPEC under ``folder``."""
    path = folder / f"synthetic-{quant}-{seed}.estream"
    pack_synthetic(SyntheticSource(SPEC, seed), path, quant=quant, progress=False)
    return path


def give_tokenizer(store: Path) -> Path:
    """Put a tokenizer of ASCII characters and one merge into a store of SPEC's vocabulary: "ab" is one token."""
    vocabulary = {chr(32 + i): i for i in range(SPEC.vocab - 2)} | {"ab": SPEC.vocab - 2}
    manifest = json.loads((store / "manifest.json").read_text())
    manifest["tokenizer"] = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[("a", "b")])).to_str()
    manifest["checksum"] = manifest_checksum(manifest)
    (store / "manifest.json").write_text(json.dumps(manifest))
    return store
