"""Small stores of random weights for tests: built in a moment, with more layers and groups than the arenas hold."""

import json
from pathlib import Path

import numpy as np
import tokenizers

from estream_lab.kernels.host.bf16 import narrow, widen
from estream_lab.models.spec import ModelSpec
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming.dense import DENSE_QUANTS
from estream_lab.streaming.pack import pack_synthetic
from estream_lab.streaming.store import manifest_checksum

SPEC = synthetic_spec(hidden=64, ffn=32, layers=3, experts=10, top_k=2, heads=2, vocab=96, context=128)


class Rounded(SyntheticSource):
    """Dense weights that are bf16 numbers, told to be stored as such or as float32."""

    def __init__(self, spec: ModelSpec, dtype: str) -> None:
        super().__init__(spec)
        self.dtype = dtype

    def dense_dtype(self, name: str) -> str:
        return self.dtype

    def dense(self, name: str) -> np.ndarray:
        weight = super().dense(name)
        return widen(narrow(weight), np.empty_like(weight))


def synthetic_store(folder: Path, quant: str = "q4_0", seed: int = 0, dense_quant: str = "keep") -> Path:
    """A store of SPEC under ``folder``."""
    path = folder / f"synthetic-{quant}-{seed}-{dense_quant}.estream"
    pack_synthetic(SyntheticSource(SPEC, seed), path, quant=quant, dense_quant=dense_quant, progress=False)
    return path


def dense_store(folder: Path, kind: str, spec: ModelSpec = SPEC) -> Path:
    """A store under ``folder`` whose dense matrices are f32, bf16 (both of the same numbers), q8_0 or q4_0."""
    path = folder / f"{kind}.estream"
    source = Rounded(spec, "BF16" if kind == "bf16" else "F32")
    dense_quant = kind if kind in DENSE_QUANTS else "keep"
    return pack_synthetic(source, path, dense_quant=dense_quant, progress=False).path


def give_tokenizer(store: Path) -> Path:
    """Put a tokenizer of ASCII characters and one merge into a store of SPEC's vocabulary: "ab" is one token."""
    vocabulary = {chr(32 + i): i for i in range(SPEC.vocab - 2)} | {"ab": SPEC.vocab - 2}
    manifest = json.loads((store / "manifest.json").read_text())
    manifest["tokenizer"] = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[("a", "b")])).to_str()
    manifest["checksum"] = manifest_checksum(manifest)
    (store / "manifest.json").write_text(json.dumps(manifest))
    return store
