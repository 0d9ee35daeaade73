"""The device's arithmetic in plain NumPy: the twin of the numba kernels beside it.

Written from docs/numerics.md alone, by an author who had not seen the kernels: where the two agree, two readings of
that page agree. Integers are int64. It is meant to be read, and slow: for some hundred rows, not for a model.

Symbols: a *code* holds a sign, an exponent code E and M; the accumulator is (S, X), of value S · 2^(X - 22).
"""

import functools
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Int: TypeAlias = NDArray[np.int64]
Bool: TypeAlias = NDArray[np.bool_]
Code: TypeAlias = NDArray[np.uint16]
Quantised: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.float16]]
Expert: TypeAlias = tuple[Quantised, Quantised, Quantised]

BLOCK = 32
FRACTION_BITS = 22
LARGEST = 0x7FFF  # ±131008, for the store of a block-floating accumulator
LARGEST_IEEE = 0x7BFF  # ±65504, everywhere else

BLOCK_FLOATING = {
    # products in a group, smallest exponent of the accumulator (7 or 9 bits of exponent)
    "hmx_v73_g4": (4, -64),
    "hmx_v75_g8": (8, -64),
    "hmx_v79_g8": (8, -64),
    "hmx_v81_g8_a39": (8, -256),
}
IEEE_FP32 = "ieee_fp32"


# Codes ----------------------------------------------------------------------------------------------------------------


def gather(x: NDArray[np.float32]) -> Code:
    """Round activations, float32 of any shape, to uint16 codes of that shape: nearest even, ±65504 at most.

    Zeros keep their sign. Raises ValueError where a value is NaN or infinite.
    """
    if not np.isfinite(x).all():
        raise ValueError("activations must be finite")
    return _code_of_float(x.astype(np.float64))


def decode_q4(q: NDArray[np.uint8], d: NDArray[np.float16]) -> Code:
    """Decode weights q (N, K) uint8 with scales d (N, K // 32) float16: (N, K) uint16 codes of d · (q - 8).

    Rounded to nearest even; a zero has the sign of the IEEE product. Raises ValueError where a scale is infinite, NaN
    or ≥ 8192 in magnitude, a q is above 15, or shapes disagree.
    """
    if q.ndim != 2 or q.shape[1] % BLOCK or d.shape != (q.shape[0], q.shape[1] // BLOCK):
        raise ValueError(f"q of shape {q.shape} and d of shape {d.shape} aren't (N, K) and (N, K // {BLOCK})")
    if (q > 15).any():
        raise ValueError("q must be in 0..15")
    scale = np.ascontiguousarray(d, np.float16).view(np.uint16)  # (N, K/32)
    if ((scale & 0x7FFF) >= 0x7000).any():  # 0x7000 is 8192; infinity and NaN lie above
        raise ValueError("scales must be finite and below 8192 in magnitude")
    scale = np.repeat(scale, BLOCK, axis=1)  # (N, K)
    level = q.astype(np.int64) - 8
    significand, exponent = _parts(scale)
    magnitude = _nearest(significand * np.abs(level), exponent, LARGEST_IEEE)
    return _signed(magnitude, _negative(scale) ^ (level < 0))


def value(code: Code) -> NDArray[np.float64]:
    """The number that each code stands for, E = 31 as an ordinary exponent: float64 of code's shape (uint16)."""
    significand, exponent = _parts(code)
    magnitude = np.ldexp(significand.astype(np.float64), exponent)
    return np.where(_negative(code), -magnitude, magnitude)


def clamped(code: Code) -> NDArray[np.float32]:
    """The number that a vector stage takes each code for, E = 31 as ±65504: float32 of code's shape (uint16)."""
    return value(_clamped_code(code)).astype(np.float32)


def _clamped_code(code: Code) -> Code:
    return _signed(np.minimum(code.astype(np.int64) & 0x7FFF, LARGEST_IEEE), _negative(code))


def _negative(code: Code) -> Bool:
    return code >= 0x8000


def _signed(magnitude: Int, negative: Bool) -> Code:
    return (magnitude | (negative.astype(np.int64) << 15)).astype(np.uint16)


def _parts(code: Code) -> tuple[Int, Int]:
    """(n, x) with |value| = n · 2^x: n an integer below 2048, not normalised."""
    word = code.astype(np.int64)
    E, M = word >> 10 & 31, word & 1023
    return np.where(E > 0, 1024 + M, M), np.maximum(E, 1) - 25


def _code_of_float(number: NDArray[np.float64]) -> Code:
    """Finite float64 to codes: to nearest even, ±65504 at most, zeros with the sign of the number."""
    fraction, exponent = np.frexp(np.abs(number))
    significand = (fraction * 2.0**53).astype(np.int64)  # exact: a float64 has 53 bits
    return _signed(_nearest(significand, exponent.astype(np.int64) - 53, LARGEST_IEEE), np.signbit(number))


def _bit_length(n: Int) -> Int:
    """Bits of n ≥ 0 up to its leading 1; n ≤ 2^53, so that float64 holds it."""
    return np.frexp(n.astype(np.float64))[1].astype(np.int64)


def _nearest(n: Int, exponent: Int, largest: int) -> Int:
    """n · 2^exponent, 0 ≤ n ≤ 2^53, as a code without sign: to nearest even, and at most the code `largest`."""
    unit = np.maximum(exponent + _bit_length(n) - 11, -24)  # the result's last place is 2^unit
    up = np.maximum(exponent - unit, 0)
    down = np.clip(unit - exponent, 0, 60)  # 60: nothing of n is left, nor half a place
    wide = n << up
    kept = wide >> down
    rest = 2 * (wide - (kept << down))
    place = np.int64(1) << down
    rounded = kept + ((rest > place) | ((rest == place) & (kept % 2 == 1)))
    # Normal: rounded is 1024 + M and unit is E - 25, and a carry to 2048 moves on to the next E by itself.
    # Subnormal: unit is -24 and rounded is M.
    return np.where(n == 0, 0, np.minimum(rounded + ((unit + 24) << 10), largest))


# The matrix product ---------------------------------------------------------------------------------------------------


def matmul(a: Code, b: Code, profile: str) -> Code:
    """The stored product a @ b.T of rows a (M, K) and decoded weights b (N, K), uint16 codes: (M, N) uint16 codes.

    Raises ValueError for an unknown profile, and unless both have the same K, a multiple of 32.
    """
    if profile == IEEE_FP32:
        return store_fp32(accumulate_fp32(a, b))
    return store(*accumulate(a, b, profile))


def accumulate_fp32(a: Code, b: Code) -> NDArray[np.float32]:
    """The accumulators of `ieee_fp32`, (M, N) float32, from uint16 codes a (M, K) and b (N, K).

    k ascending; each product is exact, each sum rounded to fp32. Raises ValueError as `matmul` does.
    """
    _check_operands(a, b)
    rows, columns = value(a).astype(np.float32), value(b).astype(np.float32)
    total = np.zeros((len(a), len(b)), np.float32)
    for k in range(a.shape[1]):
        total = total + rows[:, k, None] * columns[None, :, k]
    return total


def accumulate(a: Code, b: Code, profile: str) -> tuple[Int, Int]:
    """The accumulators (S, X) of a block-floating profile, (M, N) int64 each, from uint16 codes a (M, K) and b (N, K).

    S is a signed 30-bit integer; the value is S · 2^(X - 22). Raises ValueError as `matmul` does, and for `ieee_fp32`.
    """
    _check_operands(a, b)
    if profile not in BLOCK_FLOATING:
        raise ValueError(f"no block-floating profile {profile!r}: there are {', '.join(BLOCK_FLOATING)}")
    group, X_min = BLOCK_FLOATING[profile]
    S = np.zeros((len(a), len(b)), np.int64)
    X = np.full_like(S, X_min)
    for k in range(0, a.shape[1], group):
        rows, columns = _operand(a[:, k : k + group]), _operand(b[:, k : k + group])  # (M, g), (N, g)
        passed = (rows[0] == 0).all(axis=1)[:, None] | (columns[0] == 0).all(axis=1)[None, :]  # (M, N)
        S_new, X_new = _add(S, X, *_group(rows, columns, X_min), X_min)
        S, X = np.where(passed, S, S_new), np.where(passed, X, X_new)
    return S, X


def _check_operands(a: Code, b: Code) -> None:
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or a.shape[1] % BLOCK:
        raise ValueError(f"operands {a.shape} and {b.shape} aren't (M, K) and (N, K) with K a multiple of {BLOCK}")


def _operand(code: Code) -> tuple[Int, Int]:
    """(m, e), normalised: value = m · 2^(e - 25), 1024 ≤ |m| ≤ 2047; (0, e) for zeros."""
    n, x = _parts(code)
    z = 11 - _bit_length(n)
    return np.where(_negative(code), -n, n) << z, x + 25 - z


def _group(rows: tuple[Int, Int], columns: tuple[Int, Int], X_min: int) -> tuple[Int, Int]:
    """(S_g, X_g) of one group: (M, N) each, from (M, g) rows and (N, g) columns."""
    S = 16 * rows[0][:, None] * columns[0]  # (M, N, g)
    X = np.where(S != 0, rows[1][:, None] + columns[1] - 32, X_min)
    X_g = np.maximum(X.max(axis=2), X_min)
    return _align(S, X_g[..., None] - X).sum(axis=2), X_g


def _add(S: Int, X: Int, S_g: Int, X_g: Int, X_min: int) -> tuple[Int, Int]:
    """Add a group to the accumulator: align both, halve, and normalise by at most three places."""
    X_2 = np.maximum(X, X_g)
    a, b = _align(S, X_2 - X), _align(S_g, X_2 - X_g)
    S, X = _align(a + b, np.ones_like(X)), X_2 + 1
    n = np.minimum(_anticipated(a, b), X - X_min)
    return S << n, X - n


def _align(S: Int, n: Int) -> Int:
    """S ⇣ n: shift right towards minus infinity, and set the last bit if a 1 was lost."""
    n = np.minimum(n, 63)
    shifted: Int = S >> n
    lost: Bool = shifted << n != S
    return shifted | lost.astype(np.int64)


def _anticipated(a: Int, b: Int) -> Int:
    """Places from bit 29 down to the anticipated leading bit of a + b; 3 stands for three or more."""
    word = (1 << 31) - 1
    p, both, none = (a ^ b) & word, a & b & word, ~(a | b) & word
    Z = p ^ (~(none << 1) & word)
    O = p ^ (~(both << 1) & word)
    z, o = _zeros_from_29(Z), _zeros_from_29(O)
    return np.where((a >= 0) & (b >= 0), z, np.where((a < 0) & (b < 0), o, np.maximum(z, o)))


def _zeros_from_29(word: Int) -> Int:
    return np.select([word >> (29 - i) & 1 == 1 for i in range(3)], [0, 1, 2], default=3).astype(np.int64)


def store(significand: Int, exponent: Int) -> Code:
    """Store accumulators (S, X), int64 of one shape, as uint16 codes: 15 significant bits by ⇣, then to nearest even.

    E = 31 is an ordinary exponent, the largest result is ±131008, every zero is +0.
    """
    length = _bit_length(significand ^ (significand >> 63))  # without the sign bit, in two's complement
    lost = np.maximum(length - 15, 0)
    kept = _align(significand, lost)  # a signed 16-bit integer
    magnitude = _nearest(np.abs(kept), exponent - FRACTION_BITS + lost, LARGEST)
    return _signed(magnitude, (kept < 0) & (magnitude > 0))


def store_fp32(total: NDArray[np.float32]) -> Code:
    """Store fp32 sums (any shape, finite) as uint16 codes: to nearest even, ±65504 at most, every zero as +0."""
    code = _code_of_float(total.astype(np.float64))
    return np.where(code == 0x8000, np.uint16(0), code)


# The vector stages ----------------------------------------------------------------------------------------------------


@functools.cache
def silu_table() -> Code:
    """SiLU of every code clamped to ±65504, x / (1 + e^-x) to nearest even: (65536,) uint16, read-only."""
    # float64 is enough. As nothing cancels or overflows in the way it is written, the quotient is within 4 units of its
    # last place (exp within 1, the sum, the product and the quotient 1/2 each): a relative error of 2^-50. It could
    # round to another code only if the true value lay that close to the middle between two codes, and none of the
    # 65,536 lies closer than 2^-38 (a test measures it). Below 2^-26 no middle is near, and e^x may underflow.
    x = value(_clamped_code(np.arange(1 << 16, dtype=np.uint16)))
    table = _code_of_float(_silu(x))
    table.flags.writeable = False
    return table


def _silu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    small = np.exp(-np.abs(x))  # ≤ 1
    result: NDArray[np.float64] = np.where(x < 0, x * small, x) / (1 + small)
    return result


def swiglu(gate: Code, up: Code) -> Code:
    """silu(gate) · up of uint16 codes of one shape, E = 31 taken as ±65504: uint16 codes of that shape.

    The exact product of the table's entry and up, to nearest even, ±65504 at most; signs are multiplied, also of zeros.
    """
    s, u = silu_table()[gate], _clamped_code(up)
    (n_s, x_s), (n_u, x_u) = _parts(s), _parts(u)
    return _signed(_nearest(n_s * n_u, x_s + x_u, LARGEST_IEEE), _negative(s) ^ _negative(u))


def scatter_add(y: NDArray[np.float32], out: Code, token: NDArray[np.int32], weight: NDArray[np.float32]) -> None:
    """Add rows out (n, H) of uint16 codes, times weight (n,) float32, to the rows token (n,) int32 of y (T, H) float32.

    In place and in order, y = y + (α · v), each operation rounded to fp32; v takes E = 31 as ±65504.
    """
    rows = clamped(out)
    for i in range(len(token)):
        y[token[i]] = y[token[i]] + weight[i] * rows[i]


def expert_bank(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    offsets: Int,
    token: NDArray[np.int32],
    weight: NDArray[np.float32],
    experts: Sequence[Expert | None],
    profile: str,
) -> None:
    """One invocation over a bank: y[t] += α · Wd (silu(Wg x[t]) * (Wu x[t])), slot by slot, record by record.

    Args:
        x: (T, H) float32 activations.
        y: (T, H) float32 accumulators, changed.
        offsets: (S + 1,) int64; slot s has the records offsets[s] … offsets[s + 1] - 1.
        token: (n,) int32, each record's row of x and y.
        weight: (n,) float32, each record's α.
        experts: for each slot (gate, up, down), each (q, d) as in `decode_q4`: gate and up (F, H), down (H, F), both
            multiples of 32; None where a slot has no records. A slot without records isn't looked at.
        profile: a profile's name.

    Raises:
        ValueError: a slot with records has no expert; what `gather`, `decode_q4` and `matmul` refuse. y then holds the
            slots before.
    """
    for slot, expert in enumerate(experts):
        records = slice(int(offsets[slot]), int(offsets[slot + 1]))
        if records.start == records.stop:
            continue
        if expert is None:
            raise ValueError(f"slot {slot} has records and no expert")
        gate, up, down = (decode_q4(q, d) for q, d in expert)
        rows = gather(x[token[records]])  # (c, H)
        h = swiglu(matmul(rows, gate, profile), matmul(rows, up, profile))  # (c, F)
        scatter_add(y, matmul(h, down, profile), token[records], weight[records])
