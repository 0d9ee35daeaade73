"""What the host's expert operators share: the arrays of a call, checked, and the sizes of their temporaries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I32, I64, U8, as_input, as_output
from estream_lab.kernels.layout import LAYOUTS, projection_bytes


class BankScratch:
    """Temporaries of an expert operator; which arrays these are is the operator's matter.

    Args:
        max_rows: C, the most routes of one call.
        hidden: H of the largest expert.
        ffn: F of the largest expert.
        threads: the most threads that will run.

    Raises:
        ValueError: one of these is below 1.
    """

    def __init__(self, max_rows: int, hidden: int, ffn: int, threads: int) -> None:
        if min(max_rows, hidden, ffn, threads) < 1:
            raise ValueError("scratch memory needs at least one row, column and thread")
        self.max_rows, self.hidden, self.ffn, self.threads = max_rows, hidden, ffn, threads

    @property
    def nbytes(self) -> int:
        """Bytes of all temporaries."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))

    def check(self, routes: int, hidden: int, ffn: int) -> None:
        """See that a call fits.

        Raises:
            ValueError: it doesn't.
        """
        if routes > self.max_rows or hidden > self.hidden or ffn > self.ffn:
            raise ValueError(
                f"scratch memory for {self.max_rows} routes of {self.hidden} x {self.ffn} cannot hold {routes} of"
                f" {hidden} x {ffn}"
            )


@dataclass(frozen=True)
class BankCall:
    """The arrays of one call, as kernels want them.

    Attributes:
        x, y: float32 (T, H), activations and what results are added to.
        offsets: int64 (S + 1,). token: int32 (n,). weight: float32 (n,).
        arena: uint8, the slots' projections; gate, up, down: int64 (S,), byte offsets in it.
    """

    x: F32
    y: F32
    offsets: I64
    token: I32
    weight: F32
    arena: U8
    gate: I64
    up: I64
    down: I64

    @classmethod
    def checked(
        cls,
        x: NDArray[np.float32],
        y: NDArray[np.float32],
        offsets: NDArray[np.int64],
        token: NDArray[np.int32],
        weight: NDArray[np.float32],
        arena: NDArray[np.uint8],
        planes: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
        hidden: int,
        ffn: int,
        layout: str,
    ) -> BankCall:
        """See `host.expert.expert_bank`, whose arguments these are.

        Raises:
            ValueError: shapes or offsets that do not fit, or an unknown layout.
        """
        x = as_input(x, np.float32, (None, hidden), "x")
        y = as_output(y, np.float32, (len(x), hidden), "y")
        offsets = as_input(offsets, np.int64, (None,), "offsets")
        token = as_input(token, np.int32, (None,), "token")
        weight = as_input(weight, np.float32, (len(token),), "weight")
        slots = (len(offsets) - 1,)
        gate, up, down = (
            as_input(p, np.int64, slots, name) for p, name in zip(planes, ("gate", "up", "down"), strict=True)
        )
        _check_routes(offsets, token, len(x))
        _check_arena(arena, (gate, up, down), offsets, hidden, ffn, layout)
        arena = as_input(arena, np.uint8, (None,), "arena")
        return cls(x, y, offsets, token, weight, arena, gate, up, down)


def _check_routes(offsets: I64, token: I32, tokens: int) -> None:
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(token) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"offsets must rise from 0 to the number of routes, {len(token)}")
    if len(token) and (token.min() < 0 or token.max() >= tokens):
        raise ValueError(f"a route names token {token.min()} or {token.max()} of {tokens}")


def _check_arena(arena: U8, planes: tuple[I64, I64, I64], offsets: I64, hidden: int, ffn: int, layout: str) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"the host kernels read the layouts {', '.join(LAYOUTS)}, not {layout!r}")
    if arena.ndim != 1 or arena.dtype != np.uint8 or not arena.flags.c_contiguous or arena.ctypes.data % 4:
        raise ValueError("the arena must be a flat, contiguous array of bytes at an address that is a multiple of 4")
    used = offsets[1:] > offsets[:-1]
    for plane, sizes in zip(planes, ((ffn, hidden), (ffn, hidden), (hidden, ffn)), strict=True):
        end = len(arena) - projection_bytes(layout, *sizes)
        first = plane[used]
        if len(first) and (first.min() < 0 or first.max() > end or (first % 4).any()):
            raise ValueError(
                f"a slot's projection lies outside the arena of {len(arena)} bytes, or off a multiple of 4"
            )
