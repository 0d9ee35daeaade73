"""Weights that every row of a bench computes with: files that each process reads, a few distinct experts repeated."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estream_lab.bench.shapes import LayerShape
from estream_lab.kernels.quant import BLOCK, dequantise_q4_0, quantise_q4_0

DISTINCT = 2
"""Experts that differ; expert e of a layer has the weights of e % DISTINCT, at an address of its own."""

BLOCK_BYTES = 18  # of Q4_0: fp16 scale, then byte j with weights j (low nibble) and j + 16 (high)

Dequantised = Callable[[int, int], NDArray[np.float32]]
"""(outputs, inputs) float32 of (distinct expert, projection)."""


@dataclass(frozen=True)
class Weights:
    """Of one layer shape, on disk.

    Attributes:
        shape: of the layer.
        distinct: experts in the files, one after the other, each gate, up, down.
        plain: float32, what other quantisations than Q4_0 are made from.
        blocks: the same weights in Q4_0, 18 bytes for 32.
    """

    shape: LayerShape
    distinct: int
    plain: Path
    blocks: Path

    @classmethod
    def write(cls, shape: LayerShape, folder: Path, seed: int) -> "Weights":
        """Draw weights with a standard deviation of 1 / sqrt(inputs), so that activations keep their size."""
        made = cls(shape, min(DISTINCT, shape.experts), folder / f"{shape.name}.f32", folder / f"{shape.name}.q4_0")
        rng = np.random.default_rng(seed)
        with made.plain.open("wb") as plain, made.blocks.open("wb") as blocks:
            for _ in range(made.distinct):
                for outputs, inputs in shape.projections:
                    w = rng.standard_normal((outputs, inputs), np.float32) * np.float32(inputs**-0.5)
                    w.astype("<f4").tofile(plain)
                    q4_0_blocks(*quantise_q4_0(w)).tofile(blocks)
        return made

    def remove(self) -> None:
        """Remove the files."""
        self.plain.unlink()
        self.blocks.unlink()

    def quantised(self, expert: int, projection: int) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
        """q (N, K) and d (N, K // 32) of one distinct expert's projection: the bytes that ggml reads."""
        outputs, inputs = self.shape.projections[projection]
        count = outputs * inputs // BLOCK
        first = (3 * expert + projection) * count
        file = np.memmap(self.blocks, np.uint8, "r").reshape(-1, BLOCK_BYTES)
        return from_q4_0_blocks(file[first : first + count], outputs, inputs)

    def dequantised(self, expert: int, projection: int) -> NDArray[np.float32]:
        """(N, K) float32: Q4_0 weights, exact."""
        return dequantise_q4_0(*self.quantised(expert, projection))

    def of_file(self, path: Path) -> Dequantised:
        """Weights of a file that is laid out as `plain` is."""
        file = np.memmap(path, "<f4", "r")
        size = self.shape.hidden * self.shape.ffn

        def read(expert: int, projection: int) -> NDArray[np.float32]:
            first = (3 * expert + projection) * size
            return np.asarray(file[first : first + size], np.float32).reshape(self.shape.projections[projection])

        return read


def q4_0_blocks(q: NDArray[np.uint8], d: NDArray[np.float16]) -> NDArray[np.uint8]:
    """Q4_0 as GGUF files hold it: (N * K / 32, 18) uint8 of q (N, K) and d (N, K // 32)."""
    low, high = np.split(q.reshape(-1, BLOCK), 2, axis=1)
    scales = np.ascontiguousarray(d.reshape(-1, 1), "<f2").view(np.uint8)
    return np.concatenate([scales, low | (high << 4)], axis=1)


def from_q4_0_blocks(
    blocks: NDArray[np.uint8], outputs: int, inputs: int
) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """The inverse of `q4_0_blocks`: q (N, K) uint8 and d (N, K // 32) float16."""
    nibbles = blocks[:, 2:]
    q = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).reshape(outputs, inputs)
    d = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float16)
    return q, d.reshape(outputs, inputs // BLOCK)
