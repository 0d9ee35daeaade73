"""dense.safetensors: every weight that isn't an expert's, under canonical names, written a tensor at a time.

The format is written here rather than by the `safetensors` library because the library wants all tensors in memory at
once and has no bfloat16 for NumPy (specification: the safetensors README, "Format").
"""

import json
import math
import os
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from estream_lab.models.spec import ModelSpec
from estream_lab.streaming.store import dense_checksum

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


def dense_bytes(source: WeightSource) -> int:
    """Bytes of the dense tensors in the dtypes that the checkpoint stores them in."""
    return sum(math.prod(shape) * _ITEM_BYTES[source.dense_dtype(n)] for n, shape in source.spec.dense_shapes().items())


def write_dense(path: Path, source: WeightSource) -> dict[str, str]:
    """Write all dense tensors in the checkpoint's own dtypes, so that no value changes.

    Returns:
        Checksum of each tensor's float32 values by canonical name.
    """
    header: dict[str, dict[str, object]] = {}
    at = 0
    for name, shape in source.spec.dense_shapes().items():
        dtype = source.dense_dtype(name)
        size = math.prod(shape) * _ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)  # the data starts on a multiple of 8
    checksums = {}
    with open(path, "wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for name in header:
            tensor = source.dense(name)
            checksums[name] = dense_checksum(tensor)
            file.write(_stored(tensor, source.dense_dtype(name)).data)
        file.flush()
        os.fsync(file.fileno())
    return checksums


def _stored(tensor: NDArray[np.float32], dtype: str) -> NDArray[np.generic]:
    """The tensor in the dtype that it came in: an exact conversion."""
    if dtype == "F32":
        return tensor
    if dtype == "F16":
        return tensor.astype(np.float16)
    return (tensor.view(np.uint32) >> 16).astype(np.uint16)  # bfloat16 is the upper half of a float32
