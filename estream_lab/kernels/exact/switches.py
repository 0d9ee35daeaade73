"""The device's arithmetic with each of its steps switched on by itself: what makes its results differ from exact ones.

All switches off is float64 arithmetic, rounded once to float32 when a call's sum is added to y. All on is
`ExactOperator`, bit for bit (`Switches.device`). To be read, and to attribute differences to steps: plain NumPy, but
for float64 sums in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.arrays import F32, I32, I64, U8, U16
from estream_lab.kernels.exact.decode import decode_q4
from estream_lab.kernels.exact.elementwise import CLAMPED_VALUES
from estream_lab.kernels.exact.matmul import matmul
from estream_lab.kernels.exact.silu import silu_table
from estream_lab.kernels.host import all_finite
from estream_lab.kernels.profiles import profile
from estream_lab.kernels.quant import dequantise_q4_0, quantise_q4_0

F64 = NDArray[np.float64]
Weights = F32 | tuple[U8, NDArray[np.float16]]
"""A projection: (N, K) float32, or Q4_0 as (q (N, K) uint8, d (N, K // 32) float16)."""


class Experts(Protocol):
    """gate, up and down of each slot of a bank: a list, or what makes them when they are asked for."""

    def __len__(self) -> int:
        """How many slots."""
        ...

    def __getitem__(self, slot: int, /) -> tuple[Weights, Weights, Weights] | None:
        """Those of a slot; None where it has no records."""
        ...


STORED = "stored"
"""An accumulator that loses nothing: float64 sums, stored as fp16 like a profile's."""

LARGEST = 65504.0


@dataclass(frozen=True)
class Switches:
    """Which steps of docs/numerics.md compute as the device does.

    Attributes:
        quantise: weights that aren't Q4_0 yet are quantised first. No step of the device: what packing does.
        decode: weights are rounded to fp16 (step 2).
        operands: gathered activations (step 1) and SwiGLU's results (step 4) are rounded to fp16.
        accumulator: of the three products (steps 3 and 5), a numerics profile or `STORED`: results are fp16 then. A
            profile multiplies fp16 numbers only: it needs `decode` and `operands`.
        silu: by the table, from the fp16 code that is nearest to the gate (step 4).
        scatter: float32 products and sums (step 6), in visit order or, as no device does, in the reverse of it.

    Raises:
        EStreamError: no such accumulator or order, or a profile without its operands.
    """

    quantise: bool = False
    decode: bool = False
    operands: bool = False
    accumulator: str | None = None
    silu: bool = False
    scatter: Literal["visit", "reverse"] | None = None

    def __post_init__(self) -> None:
        if self.scatter not in (None, "visit", "reverse"):
            raise EStreamError(f"there is no scatter order '{self.scatter}': choose visit or reverse")
        if self.accumulator in (None, STORED):
            return
        name = profile(self.accumulator).name
        if not (self.decode and self.operands):
            raise EStreamError(f"the accumulator {name} multiplies fp16 numbers: switch decode and operands on as well")

    @classmethod
    def device(cls, profile_name: str) -> Switches:
        """All steps as the device computes them, weights being Q4_0 already."""
        return cls(decode=True, operands=True, accumulator=profile_name, silu=True, scatter="visit")

    @property
    def names(self) -> tuple[str, ...]:
        """What is on, in the order of the device's steps."""
        found = [name for name in ("quantise", "decode", "operands") if getattr(self, name)]
        found += [self.accumulator] if self.accumulator else []
        found += ["silu"] if self.silu else []
        return (*found, f"scatter {self.scatter}") if self.scatter else tuple(found)


def switched_bank(
    x: F32,
    y: F32,
    offsets: I64,
    token: I32,
    weight: F32,
    experts: Experts,
    switches: Switches,
) -> None:
    """Add the results of one bank's routes to y, as `ExactOperator` does where all switches are on.

    Args:
        x: (T, H) float32, finite.
        y: (T, H) float32 to add to.
        offsets: (S + 1,) int64; slot s has the records offsets[s]..offsets[s + 1].
        token: (n,) int32, row of x and y of each record.
        weight: (n,) float32 of each record.
        experts: gate (F, H), up (F, H) and down (H, F) of each slot; None where it has no records. Each is asked for
            once, when its turn comes, and let go before the next.
        switches: which steps compute as the device does.

    Raises:
        ValueError: sizes that don't fit, activations that aren't finite, a slot with records and no expert.
    """
    if len(experts) != len(offsets) - 1:
        raise ValueError(f"{len(experts)} experts for {len(offsets) - 1} slots")
    if not all_finite(x):
        raise ValueError("activations that are not finite")
    v = np.empty((len(token), x.shape[1]), np.float64)  # (n, H)
    for slot in np.flatnonzero(np.diff(offsets)).tolist():
        records = slice(int(offsets[slot]), int(offsets[slot + 1]))
        v[records] = _results(x[token[records]].astype(np.float64), experts, slot, switches)
    _scatter(y, v, token, weight, switches)


def to_half(x: F64) -> F64:
    """Rounded to fp16, ties to even, ± 65504 at most."""
    return np.clip(x, -LARGEST, LARGEST).astype(np.float16).astype(np.float64)


def _codes(x: F64) -> U16:
    """Codes of numbers that are fp16 already."""
    return x.astype(np.float16).view(np.uint16)


def _values(codes: U16) -> F64:
    """What vector stages take codes for."""
    return CLAMPED_VALUES[codes].astype(np.float64)


def _weights(projection: Weights, switches: Switches) -> F64:
    if not isinstance(projection, tuple):
        if not switches.quantise:
            wide = projection.astype(np.float64)
            return to_half(wide) if switches.decode else wide
        projection = quantise_q4_0(projection)
    if switches.decode:
        return _values(decode_q4(*projection))
    return dequantise_q4_0(*projection).astype(np.float64)


def _results(x: F64, experts: Experts, slot: int, switches: Switches) -> F64:
    """What a slot's expert makes of gathered rows: (n, H) to (n, H). One projection at a time is there in float64."""
    expert = experts[slot]
    if expert is None:
        raise ValueError(f"slot {slot} has records and no expert")
    gate, up, down = expert
    rows = to_half(x) if switches.operands else x
    g = _product(rows, _weights(gate, switches), switches.accumulator)  # (n, F)
    u = _product(rows, _weights(up, switches), switches.accumulator)  # (n, F)
    h = (_tabled_silu(g) if switches.silu else float64_silu(g)) * u
    return _product(to_half(h) if switches.operands else h, _weights(down, switches), switches.accumulator)


def _product(a: F64, b: F64, accumulator: str | None) -> F64:
    """a @ b.T as the next vector stage takes it: codes beyond ± 65504 as that."""
    if accumulator is None:
        return float64_sums(a, b)
    if accumulator == STORED:
        return to_half(float64_sums(a, b))
    return _values(matmul(_codes(a), _codes(b), accumulator))


def float64_sums(a: F64, b: F64) -> F64:
    """a @ b.T of float64 (M, K) and (N, K), in one order on every computer; BLAS chooses by processor and threads."""
    out = np.zeros((len(a), len(b)))
    _add_products(np.ascontiguousarray(a), np.ascontiguousarray(b.T), out)
    return out


@compiled
def _add_products(a: F64, b: F64, out: F64) -> None:
    """out += a @ b, ascending k."""
    for row in range(len(a)):
        for k in range(len(b)):
            for j in range(b.shape[1]):
                out[row, j] += a[row, k] * b[k, j]


def float64_silu(gate: F64) -> F64:
    """silu(g) = g / (1 + exp(-g)) of float64 of any shape."""
    small = np.exp(-np.abs(gate))  # at most 1: nothing overflows
    return np.asarray(np.where(gate < 0, gate * small, gate) / (1 + small))


def _tabled_silu(gate: F64) -> F64:
    return _values(silu_table()[_codes(to_half(gate))])


def _scatter(y: F32, v: F64, token: I32, weight: F32, switches: Switches) -> None:
    if switches.scatter is None:
        rows_of_y, place = np.unique(token, return_inverse=True)
        wide = y[rows_of_y].astype(np.float64)  # (at most n, H)
        np.add.at(wide, place, weight.astype(np.float64)[:, None] * v)
        y[rows_of_y] = wide
        return
    records = range(len(token)) if switches.scatter == "visit" else reversed(range(len(token)))
    rows = v.astype(np.float32)
    for i in records:
        y[token[i]] += weight[i] * rows[i]
