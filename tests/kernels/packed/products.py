"""A lane's micro-kernel, with any variant's operations: records and panels are made, and multiplied, as compiled."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.host.vector_ir import address
from estream_lab.kernels.layout import pack_q4_32x32
from estream_lab.kernels.packed.product import product_kernel

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
BLOCKS = 3


@dataclass(frozen=True)
class Micro:
    """What a lane's products are made of.

    Attributes:
        dot: the operations. record_bytes, panel_bytes: of a record, and of a block of a panel.
        record: makes a record: ``record(x, record)``.
        apart: makes a panel, ``apart(w, blocks, panel)``, of which products are made by `panel`. packed: of products
            that read packed weights. Both are `packed.product.RegisterBlock`.
    """

    dot: Any
    record_bytes: int
    panel_bytes: int
    record: Any
    apart: Any
    packed: Any
    panel: Any

    def product(self, packed: bool) -> Callable[[F32, U8, NDArray[np.float16], F32], F32]:
        """``product(x, q, d, c)``: c plus (rows, K) activations times a strip of Q4_0 weights."""
        run = self._compiled(packed)

        def product(x: F32, q: U8, d: NDArray[np.float16], c: F32) -> F32:
            records = np.zeros(len(x) * x.shape[1] // 32 * self.record_bytes, np.uint8)
            panel = np.zeros(x.shape[1] // 32 * self.panel_bytes, np.uint8)
            guarded = np.full((len(x) + 1, 32), 7, np.float32)
            guarded[: len(x)] = c
            run(x, pack_q4_32x32(q, d), records, panel, guarded)
            assert (guarded[-1] == 7).all()  # nothing beyond the register block is touched
            return guarded[: len(x)]

        return product

    def _compiled(self, packed: bool) -> Callable[[F32, U8, U8, U8, F32], None]:
        record, apart, size = self.record, self.apart, self.record_bytes
        kernel = product_kernel(self.packed if packed else self.panel, range(1, self.dot.rows + 1))

        @njit
        def multiply(rows: int, records: int, w: int, blocks: int, c: int) -> None:
            kernel(rows, records, w, blocks, c)

        @njit
        def take_apart(w: int, blocks: int, panel: int) -> None:
            apart(w, blocks, panel)

        @njit
        def run(x: F32, w: U8, records: U8, panel: U8, c: F32) -> None:
            rows, blocks = len(x), x.shape[1] // 32
            for block in range(blocks):
                for r in range(rows):
                    to = address(records) + size * (block * rows + r)
                    record(address(x) + 4 * (r * 32 * blocks + 32 * block), to)
            take_apart(address(w), blocks, address(panel))
            multiply(rows, address(records), address(w) if packed else address(panel), blocks, address(c))

        return run


def problem(rows: int, seed: int, exponents: float = 0) -> tuple[F32, U8, NDArray[np.float16]]:
    """Activations whose sizes spread over `exponents` powers of two to each side of 1, and a strip of Q4_0 weights."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 32 * BLOCKS)) * 2.0 ** rng.uniform(-exponents, exponents, (rows, 32 * BLOCKS))
    d = (rng.standard_normal((32, BLOCKS)) * 10.0 ** rng.integers(-7, 3, (32, BLOCKS))).astype(np.float16)
    d[:4, 0] = [6e-8, -6e-8, 6e-5, 0]  # subnormal and zero scales
    return x.astype(np.float32), rng.integers(0, 16, (32, 32 * BLOCKS), dtype=np.uint8), d
