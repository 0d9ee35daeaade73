"""One bank's routes as the operator takes them: everything is looked at before the first step changes y."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from estream_lab.errors import EStreamError
from estream_lab.kernels.arrays import as_input
from estream_lab.kernels.exact.arrays import F32, I32, I64, U8
from estream_lab.kernels.exact.decode import check_blocks
from estream_lab.kernels.host import all_finite
from estream_lab.kernels.layout import BLOCK_BYTES, projection_bytes

PROJECTIONS = ("gate", "up", "down")


class OperandError(EStreamError, ValueError):
    """Numbers of a model or a prompt that the device has no codes for."""


@dataclass(frozen=True)
class Records:
    """The records of one call: (n,) rows of x and y, (n,) weights, (S + 1,) where each slot's begin."""

    token: I32
    weight: F32
    offsets: I64

    @classmethod
    def of(cls, offsets: I64, token: I32, weight: F32, tokens: int, most: int) -> Records:
        """Checked: see `ExactOperator.__call__`, which says what is refused.

        Args:
            tokens: T, rows of x and y.
            most: records that there is room for.
        """
        offsets = as_input(offsets, np.int64, (None,), "offsets")
        token = as_input(token, np.int32, (None,), "token")
        weight = as_input(weight, np.float32, (len(token),), "weight")
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(token) or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(f"offsets must rise from 0 to the number of records, {len(token)}")
        if len(token) and (token.min() < 0 or token.max() >= tokens):
            raise ValueError(f"a record names token {token.min()} or {token.max()} of {tokens}")
        if len(token) > most:
            raise ValueError(f"{len(token)} records are more than the {most} that this operator was made for")
        if not all_finite(weight):
            raise OperandError("a record's weight is not finite: look for what makes the router's logits so large")
        return cls(token, weight, offsets)

    @property
    def slots(self) -> list[int]:
        """Slots that have records, in order."""
        return [int(slot) for slot in np.flatnonzero(np.diff(self.offsets))]

    def of_slot(self, slot: int) -> tuple[I32, F32]:
        """Its records' rows and weights."""
        records = slice(self.offsets[slot], self.offsets[slot + 1])
        return self.token[records], self.weight[records]


@dataclass(frozen=True)
class Planes:
    """Where the projections of a bank's slots lie: offsets in `arena`, (S,) for each of `PROJECTIONS`."""

    arena: U8
    places: tuple[I64, I64, I64]
    hidden: int
    ffn: int

    @classmethod
    def of(cls, arena: U8, places: tuple[I64, I64, I64], hidden: int, ffn: int, slots: int) -> Planes:
        """Checked for their shapes: see `ExactOperator.__call__`."""
        if arena.ndim != 1 or arena.dtype != np.uint8:
            raise ValueError(f"an arena is bytes in a row, not {arena.dtype} of shape {arena.shape}")
        gate, up, down = (
            as_input(place, np.int64, (slots,), name) for place, name in zip(places, PROJECTIONS, strict=True)
        )
        return cls(arena, (gate, up, down), hidden, ffn)

    def of_slot(self, slot: int) -> list[U8]:
        """The packed bytes of a slot's gate, up and down projections.

        Raises:
            ValueError: bytes outside the arena.
            OperandError: a scale of 8192 or more.
        """
        return [self._plane(slot, j) for j in range(len(PROJECTIONS))]

    def _plane(self, slot: int, j: int) -> U8:
        inputs, outputs = (self.ffn, self.hidden) if PROJECTIONS[j] == "down" else (self.hidden, self.ffn)
        offset, size = int(self.places[j][slot]), projection_bytes("q4-32x32", outputs, inputs)
        if offset < 0 or offset + size > len(self.arena):
            raise ValueError(f"a slot's projection lies outside the arena of {self.arena.size} bytes")
        plane = self.arena[offset : offset + size]
        try:
            check_blocks(plane)
        except ValueError as error:
            raise OperandError(
                f"the {PROJECTIONS[j]} projection in slot {slot} of a bank has {error}; pack the checkpoint again"
            ) from error
        return plane


def check_activations(x: F32) -> None:
    """Refuse what fp16 on the device has no code for.

    Raises:
        OperandError: x (T, H) holds a value that isn't finite.
    """
    if not all_finite(x):
        raise OperandError("activations that are not finite: fp16 on the device has no code for them, check the model")


def checking_bytes(hidden: int, ffn: int) -> int:
    """What looking at a projection's scales takes meanwhile: a copy of them, one without signs, an answer for each."""
    blocks = projection_bytes("q4-32x32", hidden, ffn) // BLOCK_BYTES
    return blocks * 32 * (2 + 2 + 1)
