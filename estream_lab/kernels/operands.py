"""What the expert operators are called with, checked: they run without bounds checks."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I32, I64, as_input, as_output
from estream_lab.kernels.layout import projection_bytes

U8 = NDArray[np.uint8]


class Room(Protocol):
    """Scratch memory: the most routes of a call, and the largest expert's sizes."""

    max_rows: int
    hidden: int
    ffn: int


class Operands(NamedTuple):
    """Arrays as compiled code takes them; shapes are those of `int8.expert_bank`."""

    x: F32
    y: F32
    offsets: I64
    token: I32
    weight: F32
    arena: U8
    gate: I64
    up: I64
    down: I64


def operands(
    x: NDArray[Any], y: NDArray[Any], offsets: NDArray[Any], token: NDArray[Any], weight: NDArray[Any], arena: U8,
    planes: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], hidden: int, ffn: int, layout: str, room: Room,
) -> Operands:  # fmt: skip
    """One bank's operands.

    Raises:
        ValueError: shapes or offsets that do not fit, an unknown layout, or scratch memory that is too small.
    """
    x = as_input(x, np.float32, (None, hidden), "x")
    y = as_output(y, np.float32, (len(x), hidden), "y")
    offsets = as_input(offsets, np.int64, (None,), "offsets")
    slots = len(offsets) - 1
    token = as_input(token, np.int32, (None,), "token")
    weight = as_input(weight, np.float32, (len(token),), "weight")
    gate, up, down = (
        as_input(plane, np.int64, (slots,), name) for plane, name in zip(planes, ("gate", "up", "down"), strict=True)
    )
    _check_routes(offsets, token, len(x))
    _check_arena(arena, (gate, up, down), offsets, hidden, ffn, layout)
    _check_room(room, len(token), hidden, ffn)
    arena = as_input(arena, np.uint8, (None,), "arena")
    return Operands(x, y, offsets, token, weight, arena, gate, up, down)


def _check_routes(offsets: I64, token: I32, tokens: int) -> None:
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(token) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"offsets must rise from 0 to the number of routes, {len(token)}")
    if len(token) and (token.min() < 0 or token.max() >= tokens):
        raise ValueError(f"a route names token {token.min()} or {token.max()} of {tokens}")


def _check_arena(arena: U8, planes: tuple[I64, I64, I64], offsets: I64, hidden: int, ffn: int, layout: str) -> None:
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


def _check_room(room: Room, routes: int, hidden: int, ffn: int) -> None:
    if routes > room.max_rows or hidden > room.hidden or ffn > room.ffn:
        raise ValueError(
            f"scratch memory for {room.max_rows} routes of {room.hidden} x {room.ffn} cannot hold {routes} of"
            f" {hidden} x {ffn}"
        )
