"""The whole expert operator stays within stated bounds of the same formula in float64, on the weights as stored in Q4.

Each element, always: errors are added up stage by stage of docs/numerics.md, u = 2^-11 for each rounding to fp16 and
the accumulator's bound of `test_oracle_bound` for each product.

All elements together: a rounding to fp16 is off by about u / √6 of the value, root mean square. On the way to an
element of Y lie x, W and the store, for gate and for up (gate's count up to 1.1-fold through silu), the table, h, and
W and the store again: ten of them, which makes ||Y - Y64|| = u √(10 / 6) ||Y64|| = 1.3 u ||Y64|| if none depends on
another. Allowed are 1.1 u to 1.4 u: close enough to tell one operand cut off instead of rounded.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.kernels.exact import ExactOperator
from estream_lab.kernels.layout import pack_q4_32x32
from estream_lab.kernels.quant import dequantise_q4_0, quantise_q4_0
from tests.kernels.exact.rational import PROFILES
from tests.kernels.exact.test_oracle_bound import F64, accumulated

F32 = NDArray[np.float32]

TOKENS, HIDDEN, FFN = 24, 128, 96
U, SUBNORMAL = 2.0**-11, 2.0**-25
RELATIVE = 1.1 * U, 1.4 * U


@dataclass(frozen=True)
class Bank:
    """Three slots' records and projections (gate, up: (S, F, H); down: (S, H, F))."""

    x: F32
    offsets: NDArray[np.int64]
    token: NDArray[np.int32]
    weight: F32
    gate: F32
    up: F32
    down: F32


def bank(seed: int) -> Bank:
    """A slot of many records, an empty one and one of few; a token may have records in two slots."""
    rng = np.random.default_rng(seed)
    offsets = np.array([0, 17, 17, 26])
    token = np.concatenate([np.sort(rng.permutation(TOKENS)[:n]) for n in np.diff(offsets)]).astype(np.int32)
    weight = rng.uniform(0.05, 0.6, len(token)).astype(np.float32)
    x = rng.standard_normal((TOKENS, HIDDEN)).astype(np.float32)
    gate, up = rng.standard_normal((2, 3, FFN, HIDDEN)).astype(np.float32) / 8
    return Bank(x, offsets, token, weight, gate, up, rng.standard_normal((3, HIDDEN, FFN)).astype(np.float32) / 8)


def computed(given: Bank, profile: str) -> F64:
    planes, at = [], []
    for slot in zip(given.gate, given.up, given.down, strict=True):
        for projection in slot:
            at.append(sum(map(len, planes)))
            planes.append(pack_q4_32x32(*quantise_q4_0(projection)))
    gate, up, down = np.array(at, np.int64).reshape(3, 3).T.copy()
    y = np.zeros_like(given.x)
    operator = ExactOperator(HIDDEN, FFN, len(given.token), profile)
    operator(given.x, y, given.offsets, given.token, given.weight, np.concatenate(planes), gate, up, down)
    return y.astype(np.float64)


def product(a: F64, da: F64, w: F64, profile: str) -> tuple[F64, F64]:
    """a Wᵀ (M, N), and how far off the device may be: for rows (M, K) that are da off, and W (N, K) rounded to fp16."""
    dw = np.abs(w.astype(np.float16).astype(np.float64) - w)
    value = a @ w.T
    inputs = np.abs(a) @ dw.T + da @ (np.abs(w) + dw).T
    # The accumulator's bound only grows with the magnitudes of products: so the largest that they may have.
    error = inputs + accumulated((np.abs(a) + da)[:, None] * (np.abs(w) + dw)[None], profile)
    return value, error + U * (np.abs(value) + error) + SUBNORMAL


def oracle(given: Bank, profile: str) -> tuple[F64, F64]:
    """Y in float64, and the bound of each element, both (T, H)."""
    y = np.zeros((TOKENS, HIDDEN))
    bound = np.zeros_like(y)
    for slot in range(3):
        gate, up, down = (
            dequantise_q4_0(*quantise_q4_0(w[slot])).astype(np.float64) for w in (given.gate, given.up, given.down)
        )
        records = range(given.offsets[slot], given.offsets[slot + 1])
        if not records:
            continue
        token, weight = given.token[records], given.weight[records, None].astype(np.float64)
        x = given.x[token].astype(np.float64)
        dx = U * np.abs(x) + SUBNORMAL
        g, dg = product(x, dx, gate, profile)
        u, du = product(x, dx, up, profile)
        s = g / (1 + np.exp(-g))
        ds = 1.1 * dg * (1 + U) + U * np.abs(s) + SUBNORMAL  # silu's slope is below 1.1
        dh = np.abs(s) * du + np.abs(u) * ds + ds * du
        h, dh = s * u, dh + U * (np.abs(s * u) + dh) + SUBNORMAL
        v, dv = product(h, dh, down, profile)
        np.add.at(y, token, weight * v)
        np.add.at(bound, token, weight * (dv + 2.0**-21 * (np.abs(v) + dv)))  # a few roundings to fp32
    return y, bound


def within(y: F64, exact: F64, bound: F64) -> tuple[bool, bool]:
    """Whether each element is within its bound, and whether all are together."""
    relative = np.linalg.norm(y - exact) / np.linalg.norm(exact)
    return bool((np.abs(y - exact) <= bound).all()), bool(RELATIVE[0] < relative < RELATIVE[1])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("profile", PROFILES)
def test_the_operator_is_within_both_bounds(profile: str, seed: int) -> None:
    given = bank(seed)
    assert within(computed(given, profile), *oracle(given, profile)) == (True, True)


def without(weights: F32, columns: slice) -> F32:
    changed = weights.copy()
    changed[0, :, columns] = 0
    return changed


def one_doubled(weights: F32) -> F32:
    changed = weights.copy()
    changed[2, 40, 32:64] *= 2
    return changed


def swapped(token: NDArray[np.int32]) -> NDArray[np.int32]:
    changed = token.copy()
    changed[[3, 4]] = token[[4, 3]]
    return changed


FAULTS = {
    "gate and up swapped": lambda b: replace(b, gate=b.up, up=b.gate),
    "no weights": lambda b: replace(b, weight=np.ones_like(b.weight)),
    "a group of gate left out": lambda b: replace(b, gate=without(b.gate, slice(64, 68))),
    "a group of down left out": lambda b: replace(b, down=without(b.down, slice(32, 36))),
    "one scale doubled": lambda b: replace(b, up=one_doubled(b.up)),
    "two records' tokens swapped": lambda b: replace(b, token=swapped(b.token)),
    "a record in the slot before": lambda b: replace(b, offsets=np.array([0, 18, 18, 26])),
    "a record lost": lambda b: replace(b, weight=np.where(np.arange(26) == 20, 0, b.weight).astype(np.float32)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_break_both_bounds(fault: str) -> None:
    given = bank(0)
    y = computed(FAULTS[fault](given), "hmx_v75_g8")
    assert within(y, *oracle(given, "hmx_v75_g8")) == (False, False)


@pytest.mark.parametrize("seed", range(3))
def test_activations_cut_off_break_the_bound_of_all(seed: int) -> None:
    given = bank(seed)
    cut = (given.x.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32)  # fp16 already: gathering changes nothing
    y = computed(replace(given, x=cut), "hmx_v75_g8")
    assert within(y, *oracle(given, "hmx_v75_g8")) == (True, False)
