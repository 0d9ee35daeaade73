"""One safetensors file, read tensor by tensor.

The format (https://huggingface.co/docs/safetensors, "Format"): a little-endian u64 with the header's length N, N
bytes of JSON that map names to dtype, shape and byte range, then the data.

The `safetensors` library is not used for reading: NumPy has no bfloat16, so its NumPy front refuses the commonest
dtype of published checkpoints, and its default memory map would leave weights resident that nobody counts. Here every
byte arrives through `pread` into an array that the caller owns, converted a piece at a time: the peak is one float32
result and one piece.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.host.bf16 import all_finite_bf16, widen
from estream_lab.models.regular import open_regular

_PIECE_BYTES = 4 << 20
_CHECKED_VALUES = 1 << 18  # at a time
_MAX_HEADER_BYTES = 100_000_000  # the library's own limit
_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies: `dtype` as the file spells it, `start` counted from the file's beginning, in bytes."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


class Shard:
    """An open safetensors file.

    Raises:
        EStreamError: the file is missing, is not safetensors, is shorter than its header says, or contradicts itself.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._fd = open_regular(path)
        except OSError as error:
            raise EStreamError(
                f"{path} can't be opened ({error.strerror}); give a readable safetensors file"
            ) from error
        try:
            self.entries: dict[str, TensorEntry] = self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the file; idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def check_dtype(self, name: str) -> None:
        """Refuse a tensor that isn't floating point of 16 or 32 bits (EStreamError)."""
        dtype = self.entries[name].dtype
        if dtype not in _ITEM_BYTES:
            raise EStreamError(
                f"tensor {name} in {self.path} is stored as {dtype}; export it as float32, float16 or bfloat16"
            )

    def read(self, name: str, index: int | None = None) -> NDArray[np.float32]:
        """The tensor, or its `index`-th part along the first axis, as float32 in memory of its own.

        Raises:
            EStreamError: the dtype is none of F32, F16, BF16, a value is NaN or infinite, or the file got shorter.
            OSError: the disk fails; it names the file.
        """
        self.check_dtype(name)
        entry = self.entries[name]
        shape, start = entry.shape, entry.start
        if index is not None:
            if not shape or not 0 <= index < shape[0]:
                raise IndexError(f"tensor {name} of shape {shape} has no part {index}")
            shape = shape[1:]
            start += index * math.prod(shape) * _ITEM_BYTES[entry.dtype]
        out = np.empty(shape, np.float32)
        self._fill(name, entry.dtype, start, out.reshape(-1))
        return out

    def read_bf16(self, name: str) -> NDArray[np.uint16]:
        """The bits of a tensor of dtype BF16, in memory of its own.

        Raises:
            EStreamError: a value is NaN or infinite, or the file got shorter.
            OSError: the disk fails; it names the file.
        """
        entry = self.entries[name]
        bits = np.empty(entry.shape, "<u2")
        flat = bits.reshape(-1)
        self.read_stored(name, flat.view(np.uint8))
        for first in range(0, flat.size, _CHECKED_VALUES):
            if not all_finite_bf16(flat[first : first + _CHECKED_VALUES]):
                raise self._not_finite(name)
        return bits.astype(np.uint16, copy=False)

    def read_stored(self, name: str, out: NDArray[np.uint8]) -> None:
        """Fill `out`, (n,), with the bytes of a tensor of n bytes, as they are.

        Raises:
            ValueError: the tensor has another size.
            EStreamError, OSError: see `read`.
        """
        entry = self.entries[name]
        if out.shape != (entry.nbytes,):
            raise ValueError(f"tensor {name} has {entry.nbytes} bytes, not {out.shape}")
        for first in range(0, entry.nbytes, _PIECE_BYTES):
            piece = out[first : first + _PIECE_BYTES]
            piece[:] = np.frombuffer(self._pread(piece.size, entry.start + first), np.uint8)

    def _fill(self, name: str, dtype: str, start: int, out: NDArray[np.float32]) -> None:
        """Read, widen and check `out.size` values from byte `start` on, a piece at a time."""
        item = _ITEM_BYTES[dtype]
        step = _PIECE_BYTES // item
        for first in range(0, out.size, step):
            piece = out[first : first + step]
            raw = self._pread(piece.size * item, start + first * item)
            if dtype == "F32":
                piece[:] = np.frombuffer(raw, "<f4")
            elif dtype == "F16":
                piece[:] = np.frombuffer(raw, "<f2")
            else:
                widen(np.frombuffer(raw, "<u2"), piece)
            if not np.isfinite(piece).all():
                raise self._not_finite(name)

    def _not_finite(self, name: str) -> EStreamError:
        return EStreamError(
            f"tensor {name} in {self.path} holds NaN or infinite weights; fetch or export the file again"
        )

    def _read_header(self) -> dict[str, TensorEntry]:
        size = os.fstat(self._fd).st_size
        if size < 8:
            raise EStreamError(f"{self.path} has only {size} bytes and is no safetensors file; fetch it again")
        length = int.from_bytes(self._pread(8, 0), "little")
        if length > min(size - 8, _MAX_HEADER_BYTES):
            raise EStreamError(f"{self.path} is no safetensors file or was cut inside its header; fetch it again")
        try:
            header = json.loads(self._pread(length, 8))
        except (ValueError, RecursionError) as error:
            raise EStreamError(
                f"{self.path} is no safetensors file (its header is not JSON); fetch it again"
            ) from error
        if not isinstance(header, dict):
            raise EStreamError(f"{self.path} is no safetensors file (its header is no object); fetch it again")
        header.pop("__metadata__", None)
        entries = {name: self._entry(name, value, 8 + length) for name, value in header.items()}
        self._check_cover(entries, 8 + length, size)
        return entries

    def _entry(self, name: str, value: Any, base: int) -> TensorEntry:
        try:
            dtype, (begin, end) = value["dtype"], value["data_offsets"]
            shape = tuple(value["shape"])
            plain = all(type(n) is int and n >= 0 for n in (begin, end, *shape)) and isinstance(dtype, str)
        except (KeyError, TypeError, ValueError):
            plain = False
        if not plain:
            raise EStreamError(f"{self.path} describes tensor {name} in a way that safetensors doesn't; fetch it again")
        entry = TensorEntry(dtype, shape, base + begin, end - begin)
        if dtype in _ITEM_BYTES and entry.nbytes != math.prod(shape) * _ITEM_BYTES[dtype]:
            raise EStreamError(
                f"{self.path} gives tensor {name} {entry.nbytes} bytes, not what its shape needs; fetch it again"
            )
        return entry

    def _check_cover(self, entries: dict[str, TensorEntry], base: int, size: int) -> None:
        """The format lets no byte of the data be shared or unused, so a cut or padded file shows without reading it."""
        at = base
        for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.nbytes)):
            if entry.start != at:
                raise EStreamError(f"{self.path} has gaps or overlaps between its tensors; fetch it again")
            at += entry.nbytes
        if at != size:
            what = "was cut short" if size < at else "has bytes that belong to no tensor"
            raise EStreamError(f"{self.path} {what} ({size} bytes, its header describes {at}); fetch it again")

    def _drop_cached(self, offset: int, nbytes: int) -> None:
        """Give the pages back: weights are read once, and the system would count them as this program's memory."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, offset, nbytes, os.POSIX_FADV_DONTNEED)

    def _pread(self, nbytes: int, offset: int) -> bytes:
        pieces = []
        while nbytes:
            try:
                piece = os.pread(self._fd, nbytes, offset)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            if not piece:
                raise EStreamError(f"{self.path} got shorter while it was read; fetch it again")
            self._drop_cached(offset, len(piece))
            pieces.append(piece)
            nbytes -= len(piece)
            offset += len(piece)
        return b"".join(pieces)
