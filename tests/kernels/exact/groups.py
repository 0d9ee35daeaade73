"""Rows of fp16 codes that lead an accumulator into its corners: random ones and families of adversarial ones.

Only 11 bits of an accumulator are stored. So most rows end by taking away what they have summed up, to 11 or 22 bits:
what is stored then is what rounding left.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.kernels.exact.rational import CODES, UNITS

U16 = NDArray[np.uint16]
Pair = tuple[int, int]
Group = list[Pair]
SIGN = 0x8000
GAPS = 81  # between exponents of products: -18 to 62


def factors(n: int) -> Pair:
    """Two codes whose product is the leading 11 bits of n units² (2^-48), the second a power of two."""
    spare = max(0, abs(n).bit_length() - 11)
    low = min(spare // 2, 30)
    magnitude = CODES[(abs(n) >> spare) << low], CODES[1 << min(spare - low, 40)]
    return magnitude[0] | (SIGN if n < 0 else 0), magnitude[1]


def exact(pairs: Sequence[Pair]) -> int:
    """The sum of products, in units²."""
    return sum(UNITS[a] * UNITS[b] for a, b in pairs)


def takes_away(pairs: Sequence[Pair], times: int = 2) -> Group:
    """Products that take 11 bits each, from the top, off the sum of others."""
    rest, taken = exact(pairs), []
    for _ in range(times):
        taken.append(factors(-rest))
        rest += exact(taken[-1:])
    return taken


def random_groups(rng: np.random.Generator, count: int) -> tuple[U16, U16]:
    """`count` rows of 32 products: codes a and b, both (count, 32) uint16.

    By turns: any codes at all; bell-shaped values; exponents within 4, and within 16, of each other. Every other row of
    each kind ends in two products that take 22 bits off the sum.
    """
    sides = []
    for _ in range(2):
        any_code = rng.integers(0, 65536, (count, 32))
        bell = rng.standard_normal((count, 32)).astype(np.float16).view(np.uint16).astype(np.int64)
        lowest, width = rng.integers(0, 16, (count, 1)), np.where(np.arange(count) % 4 == 2, 4, 16)[:, None]
        near = (lowest + rng.integers(0, width, (count, 32))) << 10 | any_code & (SIGN | 1023)
        kind = (np.arange(count) % 4)[:, None]
        sides.append(np.select([kind == 0, kind == 1], [any_code, bell], near).astype(np.uint16))
    a, b = sides
    for row in range(0, count):
        if row // 4 % 2:
            pairs = list(zip(a[row, :30].tolist(), b[row, :30].tolist(), strict=True))
            for place, pair in enumerate(takes_away(pairs), 30):
                a[row, place], b[row, place] = pair
    return a, b


def operand(rng: np.random.Generator, e: int) -> int:
    """A code of either sign whose normalised exponent is e, in -9..31: a subnormal one below 1."""
    fraction = int(rng.integers(0, 1024))
    code = e << 10 | fraction if e >= 1 else (1024 | fraction) >> (1 - e)
    return code | SIGN * int(rng.integers(0, 2))


def product(rng: np.random.Generator, total: int) -> Pair:
    """Two operands whose exponents add up to `total`, in -18..62."""
    e = int(rng.integers(max(-9, total - 31), min(31, total + 9) + 1))
    return operand(rng, e), operand(rng, total - e)


def negated(pairs: Group) -> Group:
    return [(a ^ SIGN, b) for a, b in pairs]


def shuffled(rng: np.random.Generator, pairs: Group) -> Group:
    return [pairs[i] for i in rng.permutation(len(pairs))]


def together_or_apart(rng: np.random.Generator, *groups: Group) -> list[Group]:
    """The groups as they are, or merged into one."""
    return list(groups) if rng.integers(0, 2) else [[pair for group in groups for pair in group]]


def gaps(rng: np.random.Generator, n: int) -> list[Group]:
    """Every gap up to 80 between exponents, in a group or before it; the large product goes again."""
    gap = n % GAPS
    high = int(rng.integers(gap - 18, 63))
    large, small = [product(rng, high)], [product(rng, high - gap)]
    first, second = (large, small) if rng.integers(0, 2) else (small, large)
    return [*together_or_apart(rng, first, second), negated(large)]


def total_cancellation(rng: np.random.Generator, n: int) -> list[Group]:
    pairs = [product(rng, int(rng.integers(0, 50))) for _ in range(n % 4 + 1)]
    return [*together_or_apart(rng, pairs, shuffled(rng, negated(pairs))), [product(rng, int(rng.integers(-18, 40)))]]


def last_bit(rng: np.random.Generator, n: int) -> list[Group]:
    """m (m + 2) - (m + 1)² = -1: the difference is the last of 22 bits, and a product far below may follow."""
    m, e = int(rng.integers(1024, 2046)), int(rng.integers(1, 31))
    a, b, c = (((e << 10) + m + i - 1024) for i in range(3))
    tail = [product(rng, int(rng.integers(-18, 2 * e - 20)))] if e > 2 and n % 2 else []
    return [*together_or_apart(rng, [(a, c)], [(b, b | SIGN)]), tail]


def ties(rng: np.random.Generator, n: int) -> list[Group]:
    """Half way between two codes, exactly or off by a trifle of either sign; all exponents, the largest codes too."""
    code = int(rng.integers(0, 0x8000)) if n % 3 else int(rng.choice([0x7BFE, 0x7BFF, 0x7FFE, 0x7FFF, 0, 1, 0x03FF]))
    one, half_place = 0x3C00, max(UNITS[code].bit_length() - 11, 0)
    half = (CODES[1 << half_place], 0x3800)
    trifle = [(1 | SIGN * int(rng.integers(0, 2)), 1 + int(rng.integers(0, 0x2000)))] if n % 2 else []
    pairs = [(code, one), half]
    pairs = negated(pairs) if rng.integers(0, 2) else pairs
    return together_or_apart(rng, shuffled(rng, pairs), trifle)


def sticky(rng: np.random.Generator, n: int) -> list[Group]:
    """Trifles of one sign, or of both, beside a large product that goes again."""
    high = int(rng.integers(10, 63))
    large = [product(rng, high)]
    trifles = [product(rng, int(rng.integers(-18, max(-17, high - 20)))) for _ in range(n % 7 + 1)]
    if n % 3:
        trifles = [(a & 0x7FFF | SIGN * (n % 2), b & 0x7FFF) for a, b in trifles]
    return [*together_or_apart(rng, large, trifles), negated(large)]


def subnormals(rng: np.random.Generator, n: int) -> list[Group]:
    partner = (1024, 0x3C00, 0x5000, 0x7C00)[n % 4]
    codes = rng.integers(0, 1024, 8) | SIGN * rng.integers(0, 2, 8)
    others = rng.integers(0, partner + 1, 8) | SIGN * rng.integers(0, 2, 8)
    return [list(zip(codes.tolist(), others.tolist(), strict=True))]


def exponent_31(rng: np.random.Generator, n: int) -> list[Group]:
    """Operands above 65504, and sums about the largest code and beyond it."""
    large = [(operand(rng, 31), operand(rng, int(rng.integers(13, 17)))) for _ in range(n % 8 + 1)]
    return together_or_apart(rng, large, [product(rng, int(rng.integers(10, 50)))])


def zeros(rng: np.random.Generator, n: int) -> list[Group]:
    """Zeros of both signs: one side whole, or both in part so that every product is zero.

    Before them the last bit is set, or all was cancelled and only the exponent is left, which decides what is kept of
    the trifles that follow.
    """
    high = int(rng.integers(30, 63))
    large = [product(rng, high)]
    any_code, zero = int(rng.integers(0, 65536)), SIGN * int(rng.integers(0, 2))
    silent: list[Group] = [[(zero, any_code), (any_code, zero)], [(zero, any_code)], [(any_code, zero)], [(zero, zero)]]
    some = [silent[n % 4]] * (n // 8 % 3 + 1)
    if n // 4 % 2:
        return [large, negated(large), *some, *([product(rng, high - 22 - i)] for i in range(3))]
    return [*some, large, [product(rng, high - 30)], *some, negated(large)]


def walk_down(rng: np.random.Generator, n: int) -> list[Group]:
    """After total cancellation the exponent falls by two a group, while small products come or none do."""
    if n % 3 == 0:
        large = [product(rng, int(rng.integers(-18, 0)))]
        return [large, negated(large), *([[(0, 1), (1, 0)]] * (n % 20 + 1)), [product(rng, -18)]]
    high = int(rng.integers(30, 63))
    large = [product(rng, high)]
    falling = [[product(rng, max(-18, high - 20 - 3 * i + int(rng.integers(-9, 9))))] for i in range(n % 20 + 1)]
    return [large, negated(large), *falling]


def growth(rng: np.random.Generator, n: int) -> list[Group]:
    """The largest significands with one sign: the exponent climbs, and S is as large as it can be."""
    e, sign = int(rng.integers(1, 32)), SIGN * (n % 2)
    full = (e << 10 | 1023, 0x3FFF | sign)
    return [[full] * 8 for _ in range(n % 11 + 1)]


def powers_of_two(rng: np.random.Generator, n: int) -> list[Group]:
    """Powers of two of both signs: sums that hit powers exactly, where two's complement is lopsided."""
    spread = n % 5 + 1
    power = lambda: int(rng.integers(12, 12 + spread)) << 10 | SIGN * int(rng.integers(0, 2))  # noqa: E731
    return [[(power(), power()) for _ in range(n % 8 + 1)] for _ in range(n % 3 + 1)]


def nearly_cancelled(rng: np.random.Generator, n: int) -> list[Group]:
    """A sum that loses 1 to 24 leading bits: where the anticipated place may be one short; then a trifle."""
    pairs = [product(rng, int(rng.integers(28, 40))) for _ in range(n % 3 + 1)]
    kept = exact(pairs) >> (n % 24 + 1)
    return [pairs, [factors(kept - exact(pairs))], [product(rng, int(rng.integers(-4, 30)))]]


def dense(rng: np.random.Generator, n: int) -> list[Group]:
    """S as full as it gets, where a place too few, or a silent group, costs a bit; then taken off in eighths.

    Eighths, so that the products that take the sum off don't lift the grid above its last bits.
    """
    e = int(rng.integers(5, 27))
    full = lambda sign, count: [  # noqa: E731
        (e << 10 | int(rng.integers(0, 1024)) | sign, 0x4000 | int(rng.integers(0, 1024))) for _ in range(count)
    ]
    sign = SIGN * (n % 2)
    silent: Group = [[(0, 1), (SIGN, 1)], [(0, 1), (1, 0)]][n // 2 % 2]
    small = [[product(rng, e - int(rng.integers(4, 12)))] for _ in range(3)]
    groups = [full(sign, 8), full(sign, 8), silent, full(sign ^ SIGN, int(rng.integers(1, 9))), silent, *small]
    eighth = factors(-exact([pair for group in groups for pair in group]) // 8)
    return [*groups, [eighth] * 8, takes_away([pair for group in groups for pair in group] + [eighth] * 8)]


Family = Callable[[np.random.Generator, int], list[Group]]
FAMILIES: tuple[Family, ...] = (gaps, total_cancellation, last_bit, ties, sticky, subnormals, exponent_31)
FAMILIES += (zeros, walk_down, growth, powers_of_two, nearly_cancelled, dense)


def adversarial_groups(rng: np.random.Generator, count: int) -> list[tuple[str, U16, U16]]:
    """`count` rows as (family, codes a, codes b), by turns of the families; 32 to 192 products each.

    Each group of products starts at a multiple of 8, or of 4 in every other round (where it has at most 4), and is
    filled up with zeros; in a quarter of the rounds a last group takes 22 bits off the sum.
    """
    rows = []
    for i in range(count):
        family, n = FAMILIES[i % len(FAMILIES)], i // len(FAMILIES)
        groups = family(rng, n)
        if n % 4 == 3:
            groups = [*groups, takes_away([pair for group in groups for pair in group])]
        rows.append((family.__name__, *laid_out(groups, 4 if n % 2 else 8)))
    return rows


def laid_out(groups: list[Group], width: int) -> tuple[U16, U16]:
    """Groups side by side, each filled up with zeros to a multiple of `width`; the row to a multiple of 32."""
    pairs: Group = []
    for group in groups:
        pairs += group + [(0, 0)] * (-len(group) % width)
    pairs += [(0, 0)] * (-len(pairs) % 32 or 32 * (not pairs))
    both = np.array(pairs, np.uint16)
    return both[:, 0].copy(), both[:, 1].copy()
