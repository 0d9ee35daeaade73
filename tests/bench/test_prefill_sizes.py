"""What a comparison of whole prefills takes is known, and refused, before anything is made."""

from pathlib import Path

import pytest

from estream_lab.bench import rounds
from estream_lab.bench.prefill import compare_prefill, sizes
from estream_lab.errors import EStreamError
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming import Store
from estream_lab.streaming.dense import DENSE_QUANTS, KEEP
from estream_lab.streaming.pack import pack_synthetic

SPEC = synthetic_spec(hidden=64, ffn=32, layers=2, experts=32, top_k=2, heads=2, vocab=96, context=64)


def packed(folder: Path, quant: str) -> Store:
    path = folder / "tiny.estream"
    pack_synthetic(SyntheticSource(SPEC), path, progress=False, dense_quant=quant)
    return Store(path)


@pytest.mark.parametrize("quant", [KEEP, *DENSE_QUANTS])
def test_bytes_of_dense_weights_are_those_of_the_store(tmp_path: Path, quant: str) -> None:
    stored = (packed(tmp_path, quant).path / "dense.safetensors").stat().st_size
    header = 8 + int.from_bytes((tmp_path / "tiny.estream" / "dense.safetensors").read_bytes()[:8], "little")
    assert sizes.dense_bytes(SPEC, quant) == stored - header


@pytest.mark.parametrize("quant", [KEEP, *DENSE_QUANTS])
def test_what_does_not_fit_into_memory_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quant: str
) -> None:
    store = packed(tmp_path, quant)
    ours = 4 * (store.nbytes - store.experts_bytes) + 2 * store.experts_bytes
    needed = sizes.peak_bytes(SPEC, peer=False, dense_quant=quant)
    assert 0.4 * ours < needed <= ours
    files = sizes.file_bytes(SPEC, peer=False, dense_quant=quant)
    assert files <= store.nbytes < 2.5 * files  # but for padding
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0)
    folder = tmp_path / "work"
    folder.mkdir()

    def compare(*names: str) -> None:
        compare_prefill(store, 9, names, threads=1, rounds=1, folder=folder, files=folder, progress=lambda *_: None)

    monkeypatch.setattr(sizes, "available_memory_bytes", lambda: needed - 1)
    with pytest.raises(EStreamError, match="GiB are free: choose fewer --layers"):
        compare()
    monkeypatch.setattr(sizes, "available_memory_bytes", lambda: needed)
    with pytest.raises(EStreamError, match="GiB are free: choose fewer --layers"):
        compare("llama.cpp")
    assert list(folder.iterdir()) == []
    compare()  # without the peer it does fit
