"""One accumulator of the matrix unit, group by group, with every number in between: to be looked at.

Plain Python integers, from docs/numerics.md ("The matrix product"). `matmul` does the same for whole matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from estream_lab.kernels.exact.accumulate import places_to_normalise
from estream_lab.kernels.exact.arrays import U16
from estream_lab.kernels.exact.half import operands
from estream_lab.kernels.profiles import Profile, profile

_FRACTION_BITS = 22
_SINGLE_BITS = 24
_M, _E = (table.tolist() for table in operands())


@dataclass(frozen=True, slots=True)
class Word:
    """An integer whose last bit weighs 2^place: the value is ``bits * 2 ** place``, in two's complement."""

    bits: int
    place: int

    @property
    def value(self) -> float:
        """What it stands for; exact for up to 53 bits."""
        return self.bits * 2.0**self.place

    def plus(self, other: Word) -> Word:
        """The exact sum, at the lower of both places."""
        place = min(self.place, other.place)
        return Word((self.bits << (self.place - place)) + (other.bits << (other.place - place)), place)


@dataclass(frozen=True, slots=True)
class Line:
    """A number before and after bits were cut off its end."""

    name: str
    before: Word
    after: Word

    @property
    def cut(self) -> int:
        """How many bits were cut off."""
        return self.after.place - self.before.place

    @property
    def lost(self) -> bool:
        """Whether any of them was not zero."""
        return bool(self.before.bits & ((1 << self.cut) - 1))


@dataclass(frozen=True, slots=True)
class AccumulatorStep:
    """What one group of products does to the accumulator.

    `lines` are its products, aligned; their sum and the accumulator, aligned to each other; the sum of both; and what
    the accumulator holds then. A group that is passed over has its products alone. For `ieee_fp32`, whose groups are
    single products, they are product, accumulator, exact sum, rounded sum.
    """

    first: int
    size: int
    passed_over: bool
    lines: tuple[Line, ...]
    held: Word
    exact: Word

    @property
    def products(self) -> tuple[Line, ...]:
        """The group's products."""
        return self.lines[: self.size]


def accumulator_steps(a: U16, b: U16, profile_name: str) -> tuple[AccumulatorStep, ...]:
    """The steps of one output element, sum of a_k · b_k.

    Args:
        a: (K,) uint16 codes of a row of activations. b: (K,) of a weight column; K is a multiple of 32.
        profile_name: a numerics profile.

    Returns:
        One step for each group of products, k ascending; `exact` is the sum so far without any rounding.

    Raises:
        EStreamError: no such profile.
        ValueError: sizes that don't fit.
    """
    chosen = profile(profile_name)
    if a.ndim != 1 or a.shape != b.shape or len(a) % 32:
        raise ValueError(f"operands of shape {a.shape} and {b.shape}: both must be (K,), K a multiple of 32")
    factors = list(zip(a.tolist(), b.tolist(), strict=True))
    return tuple(_grouped(factors, chosen) if chosen.block_floating else _rounded(factors))


def align(word: Word, place: int) -> Word:
    """A word with its last bit at `place`, no lower than before: the bit is also set where anything was shifted out."""
    cut = place - word.place
    kept = word.bits >> cut
    return Word(kept | (kept << cut != word.bits), place)


def nearest(word: Word, bits: int) -> Word:
    """The nearest word of so many bits, ties to even."""
    cut = max(0, abs(word.bits).bit_length() - bits)
    kept, rest = word.bits >> cut, word.bits & ((1 << cut) - 1)
    return Word(kept + (2 * rest + (kept & 1) > 1 << cut), word.place + cut)


def _product(a: int, b: int, spare: int) -> Word | None:
    """A product with `spare` zero bits at its end; None for zero, which has no exponent."""
    bits = _M[a] * _M[b] << spare
    return Word(bits, _E[a] + _E[b] - 50 - spare) if bits else None


def _grouped(factors: list[tuple[int, int]], chosen: Profile) -> Iterator[AccumulatorStep]:
    least = chosen.least_exponent - _FRACTION_BITS
    held, exact = Word(0, least), Word(0, least)
    for k in range(0, len(factors), chosen.group):
        group = factors[k : k + chosen.group]
        # 16 m_a m_b: a product has 18 bits of fraction, an accumulator 22
        found = [_product(*pair, spare=4) for pair in group]
        grid = max([least, *(word.place for word in found if word)])
        products = [word or Word(0, grid) for word in found]
        lines = [Line(f"product {k + i}", word, align(word, grid)) for i, word in enumerate(products)]
        for word in products:
            exact = exact.plus(word)
        # exponents of operands tell zeros: their significand is 0
        passed_over = not any(_M[a] for a, _ in group) or not any(_M[b] for _, b in group)
        if not passed_over:
            added = Word(sum(line.after.bits for line in lines), grid)
            more, held = _added(held, added, least)
            lines += more
        yield AccumulatorStep(k, len(group), passed_over, tuple(lines), held, exact)


def _added(held: Word, group: Word, least: int) -> tuple[list[Line], Word]:
    """The accumulator and the sum of a group, added: the lines, and what the accumulator holds then."""
    top = max(held.place, group.place)
    a, b = align(held, top), align(group, top)
    total = Word(a.bits + b.bits, top)
    halved = align(total, top + 1)
    places = min(int(places_to_normalise(np.int32(a.bits), np.int32(b.bits))), halved.place - least)
    after = Word(halved.bits << places, halved.place - places)
    lines = [
        Line("sum of the group", group, b),
        Line("accumulator", held, a),
        Line("their sum", total, halved),
        Line("accumulator then", after, after),
    ]
    return lines, after


def _rounded(factors: list[tuple[int, int]]) -> Iterator[AccumulatorStep]:
    held, exact = Word(0, -50), Word(0, -50)
    for k, pair in enumerate(factors):
        product = _product(*pair, spare=0) or Word(0, held.place)
        exact, total = exact.plus(product), held.plus(product)
        after = nearest(total, _SINGLE_BITS)
        lines = (
            Line(f"product {k}", product, product),
            Line("accumulator", held, held),
            Line("their sum", total, after),
            Line("accumulator then", after, after),
        )
        held = after
        yield AccumulatorStep(k, 1, False, lines, held, exact)
