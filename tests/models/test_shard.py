import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save_file

from estream_lab.errors import EStreamError
from estream_lab.models import shard
from estream_lab.models.shard import Shard

from .checkpoints import write_raw

FINITE_BFLOAT16 = st.integers(0, 0xFFFF).filter(lambda bits: bits & 0x7F80 != 0x7F80)


def read(path: Path, name: str, index: int | None = None) -> np.ndarray:
    file = Shard(path)
    try:
        return file.read(name, index)
    finally:
        file.close()


@given(arrays.arrays(np.uint16, st.integers(1, 50), elements=FINITE_BFLOAT16))
def test_bfloat16_widens_without_changing_a_bit(tmp_path_factory: pytest.TempPathFactory, bits: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("bf16") / "a.safetensors"
    wide = read(write_raw(path, {"w": ("BF16", [len(bits)], bits.tobytes())}), "w")
    assert wide.dtype == np.float32
    assert np.array_equal(wide.view(np.uint32) >> 16, bits)
    assert not (wide.view(np.uint32) & 0xFFFF).any()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_floats_read_as_the_library_wrote_them(tmp_path: Path, dtype: type) -> None:
    weights = np.random.default_rng(1).standard_normal((3, 5, 7)).astype(dtype)
    save_file({"w": weights, "other": weights[0].copy(), "scalar": np.array(2, dtype)}, tmp_path / "a.safetensors")
    assert np.array_equal(read(tmp_path / "a.safetensors", "w"), weights.astype(np.float32))
    assert np.array_equal(read(tmp_path / "a.safetensors", "other"), weights[0].astype(np.float32))
    assert read(tmp_path / "a.safetensors", "scalar") == 2
    for index in range(3):
        assert np.array_equal(read(tmp_path / "a.safetensors", "w", index), weights[index].astype(np.float32))


@pytest.mark.parametrize("index", [-1, 3])
def test_a_part_beyond_the_first_axis_is_refused(tmp_path: Path, index: int) -> None:
    save_file({"w": np.zeros((3, 4), np.float32)}, tmp_path / "a.safetensors")
    with pytest.raises(IndexError):
        read(tmp_path / "a.safetensors", "w", index)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_pieces_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    bits = np.arange(1, 1 + 2 * 101, dtype=np.uint16)[: 202 if dtype == "F32" else 101]
    path = write_raw(tmp_path / "a.safetensors", {"w": (dtype, [101], bits.tobytes())})
    whole = read(path, "w")
    monkeypatch.setattr(shard, "_PIECE_BYTES", 12)
    assert np.array_equal(read(path, "w"), whole)


def test_reading_holds_one_result_and_one_piece(tmp_path: Path) -> None:
    weights = np.ones((64, 1 << 18), np.float16)  # 32 MiB on disk, 64 MiB as float32
    save_file({"w": weights}, tmp_path / "a.safetensors")
    del weights
    tracemalloc.start()
    try:
        wide = read(tmp_path / "a.safetensors", "w")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < wide.nbytes + (16 << 20)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path: Path, bad: float, dtype: type) -> None:
    weights = np.zeros(10, dtype)
    weights[7] = bad
    save_file({"model.norm.weight": weights}, tmp_path / "a.safetensors")
    with pytest.raises(EStreamError, match=r"model\.norm\.weight in .*a\.safetensors holds NaN or infinite"):
        read(tmp_path / "a.safetensors", "model.norm.weight")


@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0])
def test_bfloat16_that_is_not_finite_is_refused(tmp_path: Path, bits: int) -> None:
    path = write_raw(tmp_path / "a.safetensors", {"w": ("BF16", [1], bits.to_bytes(2, "little"))})
    with pytest.raises(EStreamError, match="NaN or infinite"):
        read(path, "w")


@pytest.mark.parametrize("dtype", [np.int8, np.float64])
def test_other_dtypes_are_refused_by_name(tmp_path: Path, dtype: type) -> None:
    save_file({"w": np.zeros(4, dtype)}, tmp_path / "a.safetensors")
    with pytest.raises(EStreamError, match=r"tensor w in .* is stored as (I8|F64); export it as"):
        read(tmp_path / "a.safetensors", "w")


def good_file(folder: Path) -> bytes:
    path = folder / "good.safetensors"
    save_file({"a": np.ones((4, 4), np.float32), "b": np.ones(8, np.float16)}, path)
    return path.read_bytes()


@pytest.mark.parametrize("keep", range(0, 1000, 7))
def test_a_file_cut_anywhere_is_refused_before_reading(tmp_path: Path, keep: int) -> None:
    content = good_file(tmp_path)
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(content[: min(keep, len(content) - 1)])
    with pytest.raises(EStreamError, match=r"cut\.safetensors (has only|.*cut inside its header|was cut short)"):
        Shard(cut)


def test_a_file_with_bytes_appended_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long.safetensors").write_bytes(good_file(tmp_path) + b"\0")
    with pytest.raises(EStreamError, match="bytes that belong to no tensor"):
        Shard(tmp_path / "long.safetensors")


@pytest.mark.parametrize(
    "content",
    [
        b"GGUF\x03\0\0\0" + bytes(100),
        b"PK\x03\x04" + bytes(100),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        (2).to_bytes(8, "little") + b"[]",
        (8).to_bytes(8, "little") + b"not json",
        (2).to_bytes(8, "little") + b"\xff\xfe",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "foreign.safetensors").write_bytes(content)
    with pytest.raises(EStreamError, match=r"foreign\.safetensors is no safetensors file"):
        Shard(tmp_path / "foreign.safetensors")


@pytest.mark.parametrize(("make", "why"), [(os.mkfifo, "no regular file"), (os.mkdir, "a folder")])
def test_a_pipe_or_folder_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    make(tmp_path / "a.safetensors")
    with pytest.raises(EStreamError, match=rf"a\.safetensors can't be opened \(it is {why}\)"):
        Shard(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {},
        {"dtype": "F32", "shape": [2]},
        {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]},
        {"dtype": 32, "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0]},
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
    ],
)
def test_a_header_that_makes_no_sense_is_refused_by_tensor(tmp_path: Path, entry: Any) -> None:
    path = write_raw(tmp_path / "a.safetensors", {"w": ("F32", [2], bytes(8))}, w=entry)
    with pytest.raises(EStreamError, match=r"a\.safetensors .*tensor w"):
        Shard(path)


@pytest.mark.parametrize("offsets", [[0, 8], [5, 13], [2, 10]])
def test_gaps_and_overlaps_are_refused(tmp_path: Path, offsets: list[int]) -> None:
    entries = {"a": ("F32", [1], bytes(4)), "b": ("F32", [2], bytes(9))}
    moved = {"dtype": "F32", "shape": [2], "data_offsets": offsets}
    with pytest.raises(EStreamError, match="gaps or overlaps"):
        Shard(write_raw(tmp_path / "a.safetensors", entries, b=moved))


def test_a_file_that_shrinks_while_open_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"w": np.ones(4096, np.float32)}, path)
    file = Shard(path)
    with path.open("r+b") as writable:
        writable.truncate(200)
    with pytest.raises(EStreamError, match="got shorter"):
        file.read("w")
    file.close()


def test_an_absent_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match=r"nothing\.safetensors can't be opened \(No such file"):
        Shard(tmp_path / "nothing.safetensors")


def test_metadata_is_no_tensor(tmp_path: Path) -> None:
    save_file({"w": np.ones(4, np.float32)}, tmp_path / "a.safetensors", metadata={"format": "pt"})
    file = Shard(tmp_path / "a.safetensors")
    assert list(file.entries) == ["w"]
    file.close()
    file.close()
