"""Small stores of random weights for tests: built in a moment, with more layers and groups than the arenas hold."""

from pathlib import Path

from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming.pack import pack_synthetic

SPEC = synthetic_spec(hidden=64, ffn=32, layers=3, experts=10, top_k=2, heads=2, vocab=96, context=128)


def synthetic_store(folder: Path, quant: str = "q4_0", seed: int = 0) -> Path:
    """A store of SPEC under ``folder``."""
    path = folder / f"synthetic-{quant}-{seed}.estream"
    pack_synthetic(SyntheticSource(SPEC, seed), path, quant=quant, progress=False)
    return path
