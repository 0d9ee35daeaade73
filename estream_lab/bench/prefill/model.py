"""The same weights for a peer: a store's own, in plain files that the peer's format is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.bench.weights import q4_0_blocks
from estream_lab.kernels.layout import unpack_f32, unpack_q4_32x32
from estream_lab.models.spec import ModelSpec
from estream_lab.streaming import Store
from estream_lab.streaming.dense import KEEP, write_dense


@dataclass(frozen=True)
class _Float32:
    """A store's dense weights in float32, as a source to write."""

    spec: ModelSpec
    dense: Callable[[str], NDArray[np.float32]]

    def dense_dtype(self, name: str) -> str:
        """Always F32."""
        return "F32"


def plain_model(store: Store, folder: Path) -> dict[str, Any]:
    """Write a store's experts as plain weights, and say where everything lies: what a peer's `write` asks for.

    The file has each layer's gate (E, F, H), up (E, F, H) and down (E, H, F): float32, or the store's Q4_0 blocks bit
    for bit in the order of GGUF. Dense weights are read from the store itself, or, where they
    are quantised in a way of our own, from a file in float32.
    """
    quant = "f32" if store.layout == "f32" else "q4_0"
    path = folder / "experts.plain"
    file = np.memmap(store.experts_path, np.uint8, "r")
    with path.open("wb") as plain:
        for layer in range(store.spec.layers):
            for projection in range(3):
                for expert in range(store.spec.experts):
                    _projection(store, file, layer, expert, projection).tofile(plain)
    return {
        "spec": store.spec.to_json(),
        "dense": str(_dense(store, folder)),
        "experts": str(path),
        "quant": quant,
    }


def _dense(store: Store, folder: Path) -> Path:
    """A safetensors file of the very values that our rows multiply by."""
    if not store.dense.layouts:
        return store.dense.path
    path = folder / "dense.plain"
    with store.dense_reader() as read:
        write_dense(path, _Float32(store.spec, read), KEEP)
    return path


def _projection(
    store: Store, file: NDArray[np.uint8], layer: int, expert: int, projection: int
) -> NDArray[np.float32] | NDArray[np.uint8]:
    """gate, up or down (projection 0, 1, 2) of one expert: (N, K) float32, or (N * K / 32, 18) uint8."""
    records = store.layers[layer]
    record, shape = records.record, records.record.shape
    place = int(np.flatnonzero(records.order == expert)[0])
    sizes = (record.gate_bytes, record.up_bytes, record.down_bytes)
    first = records.offset + place * record.stride + sum(sizes[:projection])
    rows, depth = (shape.hidden, shape.ffn) if projection == 2 else (shape.ffn, shape.hidden)
    packed = file[first : first + sizes[projection]]
    if shape.layouts[projection] == "f32":
        return unpack_f32(packed, rows, depth)
    return q4_0_blocks(*unpack_q4_32x32(packed, rows, depth))
