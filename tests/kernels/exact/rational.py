"""An exact model of the matrix product's accumulators, written from docs/numerics.md in rational numbers.

It speaks of values and of the grids that they lie on, where the page speaks of shifts and words. A value is a whole
number of ticks, the finest grid of any profile. With `tick` a `Fraction` all arithmetic below is that of fractions;
with `tick = 1` the same statements run over whole numbers, several times as fast, and a test holds the two together.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

Number = Fraction | int
ToGrid = Callable[[Number, Number], Number]

TICK = Fraction(1, 2**278)
"""Grid of the lowest exponent that any profile has: 2^(-256 - 22)."""

BLOCK_FLOATING = {
    "hmx_v73_g4": (4, -64),
    "hmx_v75_g8": (8, -64),
    "hmx_v79_g8": (8, -64),
    "hmx_v81_g8_a39": (8, -256),
}
"""Of each block floating profile: products of a group, lowest exponent."""

PROFILES = ("ieee_fp32", *BLOCK_FLOATING)


def units(code: int) -> int:
    """The value of an fp16 code in units of 2^-24: always a whole number."""
    exponent, fraction = code >> 10 & 31, code & 1023
    magnitude = (1024 + fraction) << (exponent - 1) if exponent else fraction
    return -magnitude if code & 0x8000 else magnitude


UNITS = [units(code) for code in range(65536)]
CODES = {n: code for code, n in enumerate(UNITS) if code != 0x8000}
"""The code of each number of units that has one; +0 for zero."""


def to_odd(value: Number, grid: Number) -> Number:
    """The value on a grid: itself, or, between two points, the one that is an odd multiple of the grid.

    That is what rounding down and setting the last bit when anything was lost comes to.
    """
    steps, rest = divmod(value, grid)
    return (steps + 1 if rest and steps % 2 == 0 else steps) * grid


def to_nearest(value: Number, grid: Number) -> Number:
    """The nearest value on a grid, the even multiple of two equally near."""
    steps, rest = divmod(value, grid)
    return (steps + 1 if (2 * rest, steps % 2) > (grid, 0) else steps) * grid


def downwards(value: Number, grid: Number) -> Number:
    """A planted fault: `to_odd` without the last bit set."""
    return value // grid * grid


def anticipated(a: Number, b: Number, grid: Number) -> int:
    """How many places the sum of two numbers of grid points is expected to have free at its top, at most 3.

    Only the four places 2^26 to 2^29 have a say: in each, the two summands have 0, 1 or 2 ones between them.
    """
    high_a, high_b = a // (grid * 2**26), b // (grid * 2**26)
    ones = [high_a // 2**place % 2 + high_b // 2**place % 2 for place in (3, 2, 1, 0)]

    def run(filler: int) -> int:
        # A place counts as free where it holds a lone one or the next holds only filler, but not both.
        for n in range(3):
            if (ones[n] == 1) == (ones[n + 1] == filler):
                return n
        return 3

    if a >= 0 and b >= 0:
        return run(0)
    return run(2) if a < 0 and b < 0 else max(run(0), run(2))


def one_side_zero(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether a group of units a and b is passed over."""
    return not any(a) or not any(b)


def accumulate(
    a_codes: Sequence[int],
    b_codes: Sequence[int],
    profile: str,
    tick: Number = TICK,
    to_grid: ToGrid = to_odd,
    places: Callable[[Number, Number, Number], int] = anticipated,
    passed_over: Callable[[Sequence[int], Sequence[int]], bool] = one_side_zero,
) -> tuple[Number, int]:
    """What the accumulator holds after the last product: its value (in the measure of `tick`) and its exponent X.

    The functions are arguments for the sake of planted faults. The exponent of `ieee_fp32` is given as 0.
    """
    a, b = [UNITS[code] for code in a_codes], [UNITS[code] for code in b_codes]
    product = tick * 2 ** (278 - 48)  # one unit times one unit
    value: Number = 0 * tick
    if profile == "ieee_fp32":
        for m, n in zip(a, b, strict=True):
            total = value + m * n * product
            spare = int(abs(total) // tick).bit_length() - 24
            value = to_nearest(total, tick * 2 ** max(0, spare))
        return value, 0
    group, lowest = BLOCK_FLOATING[profile]
    x = lowest
    for k in range(0, len(a), group):
        ga, gb = a[k : k + group], b[k : k + group]
        if passed_over(ga, gb):
            continue
        # X of a product is the sum of its factors' binary exponents, less 2; a unit's is -24.
        products = [
            (m * n * product, m.bit_length() + n.bit_length() - 52) for m, n in zip(ga, gb, strict=True) if m and n
        ]
        x_group = max([lowest, *(exponent for _, exponent in products)])
        grid = tick * 2 ** (x_group + 256)
        added = sum((to_grid(p, grid) for p, _ in products), start=0 * tick)
        x = max(x, x_group)
        grid = tick * 2 ** (x + 256)
        old, new = to_grid(value, grid), to_grid(added, grid)
        value = to_grid(old + new, 2 * grid)
        x = x + 1 - min(3, places(old, new, grid), x + 1 - lowest)
        grid = tick * 2 ** (x + 256)
        assert value % grid == 0 and -(2**29) <= value // grid < 2**29, "the page says that S fits 30 bits"
    return value, x


def store(value: Fraction, profile: str) -> int:
    """The fp16 code that a value is stored as."""
    magnitude = abs(value) * 2**24
    step = 2 ** max(0, int(magnitude).bit_length() - 11)
    largest = UNITS[0x7BFF if profile == "ieee_fp32" else 0x7FFF]
    n = min(int(to_nearest(magnitude, step)), largest)
    return CODES[-n if value < 0 else n]


def dot(a_codes: Sequence[int], b_codes: Sequence[int], profile: str, to_grid: ToGrid = to_odd) -> int:
    """The code of one output element."""
    value, _ = accumulate(a_codes, b_codes, profile, 1, to_grid)
    return store(value * TICK, profile)
