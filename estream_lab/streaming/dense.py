"""dense.safetensors: every weight that isn't an expert's, under canonical names, written a tensor at a time.

Matrices may be quantised: such a tensor is U8, (strips, K / 32, bytes of a block), in the layout that execution
consumes. Everything else is in the checkpoint's own dtype.

The format is written here rather than by the `safetensors` library because the library wants all tensors in memory at
once and has no bfloat16 for NumPy (specification: the safetensors README, "Format").
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.host.bf16 import narrow
from estream_lab.kernels.int8 import Strips, pack_q4, pack_q8
from estream_lab.kernels.layout import STRIP
from estream_lab.kernels.projections import STRIPS
from estream_lab.models.dense import quantisable
from estream_lab.models.spec import ModelSpec

KEEP = "keep"
DENSE_QUANTS = {"q8_0": "q8-32x32", "q4_0": "q4-32x32"}
"""The layout of each quantisation that packing offers for dense matrices; `KEEP` leaves them as they are."""

_PACK: dict[str, Callable[[NDArray[Any]], Strips]] = {"q8_0": pack_q8, "q4_0": pack_q4}
_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


class WeightSource(Protocol):
    """Where weights come from: a checkpoint's `ExpertSource`, or a `SyntheticSource`."""

    spec: ModelSpec

    def dense_dtype(self, name: str) -> str:
        """F32, F16 or BF16: how to store a dense weight without changing it."""
        ...

    def dense(self, name: str) -> NDArray[np.float32]:
        """A dense weight by its canonical name."""
        ...

    def expert(self, layer: int, expert: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """gate (F, H), up (F, H), down (H, F)."""
        ...


@dataclass(frozen=True)
class DenseWritten:
    """What was written of each tensor, by canonical name.

    Attributes:
        checksums: see `write_dense`.
        layouts: of the quantised ones.
    """

    checksums: dict[str, str]
    layouts: dict[str, str]


def check_dense_quant(spec: ModelSpec, quant: str) -> None:
    """See that a model's dense matrices can be quantised so.

    Raises:
        EStreamError: no such quantisation, or a matrix whose rows aren't whole blocks.
    """
    if quant == KEEP:
        return
    if quant not in DENSE_QUANTS:
        choices = ", ".join((KEEP, *DENSE_QUANTS))
        raise EStreamError(f"unknown quantisation '{quant}' of dense weights: choose one of {choices}")
    for name, (_, depth) in quantisable(spec).items():
        if depth % STRIP:
            raise EStreamError(f"{name} has {depth} inputs, and {quant} takes multiples of {STRIP}: keep dense weights")


def dense_bytes(source: WeightSource, quant: str) -> int:
    """Bytes of the dense tensors as `write_dense` stores them."""
    return sum(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in _header(source, quant).values())


def write_dense(path: Path, source: WeightSource, quant: str) -> DenseWritten:
    """Write all dense tensors: matrices quantised, unless `quant` is `KEEP`, the others so that no value changes.

    Returns:
        Checksums of what is stored: of a quantised tensor its blocks', of another one its float32 values'.

    Raises:
        EStreamError: a matrix that can't be quantised, which it names.
    """
    header = _header(source, quant)
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)  # the data starts on a multiple of 8
    checksums = {}
    with open(path, "wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for name, entry in header.items():
            tensor = source.dense(name)
            if entry["dtype"] == "U8":
                blocks = _quantised(name, tensor, quant)
                checksums[name] = xxhash.xxh3_64_hexdigest(blocks.data)
                file.write(blocks.data)
            else:
                checksums[name] = dense_checksum(tensor)
                file.write(_stored(tensor, entry["dtype"]).data)
        file.flush()
        os.fsync(file.fileno())
    layouts = {name: DENSE_QUANTS[quant] for name, entry in header.items() if entry["dtype"] == "U8"}
    return DenseWritten(checksums, layouts)


def dense_checksum(tensor: NDArray[np.float32]) -> str:
    """xxh3-64 of a dense tensor's float32 values, in hexadecimal."""
    return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(tensor).data)


def _header(source: WeightSource, quant: str) -> Mapping[str, dict[str, Any]]:
    """dtype, shape and place of every tensor."""
    layout = STRIPS[DENSE_QUANTS[quant]] if quant != KEEP else None
    matrices = quantisable(source.spec) if layout is not None else {}
    header: dict[str, dict[str, Any]] = {}
    at = 0
    for name, shape in source.spec.dense_shapes().items():
        dtype, stored = source.dense_dtype(name), shape
        if layout is not None and name in matrices:
            dtype, stored = "U8", layout.shape_for(*matrices[name])
        size = math.prod(stored) * _ITEM_BYTES.get(dtype, 1)
        header[name] = {"dtype": dtype, "shape": list(stored), "data_offsets": [at, at + size]}
        at += size
    return header


def _quantised(name: str, tensor: NDArray[np.float32], quant: str) -> NDArray[np.uint8]:
    try:
        return _PACK[quant](tensor).blocks
    except EStreamError as error:
        raise EStreamError(f"{name} can't be quantised, so keep dense weights: {error}") from error


def _stored(tensor: NDArray[np.float32], dtype: str) -> NDArray[np.generic]:
    """The tensor in the dtype that it came in: an exact conversion."""
    if dtype == "F32":
        return tensor
    return tensor.astype(np.float16) if dtype == "F16" else narrow(tensor)
