"""The twin's codes and vector stages give what can be worked out by hand; no other version is needed here."""

import numpy as np
import pytest

from estream_lab.kernels.exact import twin

PROFILES = ["ieee_fp32", "hmx_v73_g4", "hmx_v75_g8", "hmx_v79_g8", "hmx_v81_g8_a39"]
ALL_CODES = np.arange(1 << 16, dtype=np.uint16)
FINITE = ALL_CODES[(ALL_CODES & 0x7C00) != 0x7C00]


# Codes


def test_every_code_is_a_number() -> None:
    np.testing.assert_array_equal(twin.value(FINITE), FINITE.view(np.float16).astype(np.float64))
    assert np.signbit(twin.value(np.array([0x8000, 0x8001, 0xFC00], np.uint16))).all()
    assert list(twin.value(np.array([0x7C00, 0xFC01, 0x7FFF], np.uint16))) == [65536.0, -65600.0, 131008.0]
    assert list(twin.clamped(np.array([0x7C00, 0xFFFF, 0x7BFF, 0x3C00], np.uint16))) == [65504, -65504, 65504, 1]
    assert twin.clamped(FINITE).dtype == np.float32


def test_gather_rounds_to_even_saturates_and_keeps_signs() -> None:
    x = [1 + 2**-11, 1 + 3 * 2**-11, 2**-25, -(2**-25), 3 * 2**-25, 65519.99, 65520, -65520, 3e38, -0.0, 0.0, 1e-45]
    expected = [0x3C00, 0x3C02, 0, 0x8000, 2, 0x7BFF, 0x7BFF, 0xFBFF, 0x7BFF, 0x8000, 0, 0]
    assert list(twin.gather(np.array(x, np.float32))) == expected


def test_gather_agrees_with_the_rounding_of_numpy() -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(20_000) * 2.0 ** rng.integers(-28, 14, 20_000)).astype(np.float32)
    ties = FINITE.view(np.float16).astype(np.float32) * np.float32(1 + 2**-11)
    x = np.concatenate([x, ties])
    x = x[np.abs(x) < 65504]
    np.testing.assert_array_equal(twin.gather(x), x.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_gather_refuses_what_is_not_finite(bad: float) -> None:
    with pytest.raises(ValueError):
        twin.gather(np.array([[0, bad]], np.float32))


def test_decode_is_the_rounded_product_for_every_scale() -> None:
    d = FINITE[(FINITE & 0x7FFF) < 0x7000].view(np.float16)[:, None]  # (57344, 1): |d| < 8192
    q = np.tile(np.arange(32, dtype=np.uint8) % 16, (len(d), 1))
    expected = (d.astype(np.float64) * (q.astype(np.float64) - 8)).astype(np.float16)
    np.testing.assert_array_equal(twin.decode_q4(q, d), expected.view(np.uint16))


def test_decode_takes_one_scale_for_32_weights_along_k() -> None:
    q = np.full((2, 64), 9, np.uint8)
    d = np.array([[1, 2], [3, -0.0]], np.float16)
    decoded = twin.decode_q4(q, d)
    assert [list(np.unique(decoded[n, k : k + 32])) for n in (0, 1) for k in (0, 32)] == [
        [0x3C00], [0x4000], [0x4200], [0x8000],
    ]  # fmt: skip


@pytest.mark.parametrize("scale", [8192, -8192, np.inf, -np.inf, np.nan])
def test_decode_refuses_scales_that_overflow(scale: float) -> None:
    with pytest.raises(ValueError):
        twin.decode_q4(np.full((1, 32), 8, np.uint8), np.array([[scale]], np.float16))


def test_decode_refuses_weights_beyond_four_bits_and_wrong_shapes() -> None:
    q, d = np.full((2, 32), 15, np.uint8), np.ones((2, 1), np.float16)
    for bad_q, bad_d in [(q + np.uint8(1), d), (q, d[:1]), (q[:, :31], d), (q, np.tile(d, 2))]:
        with pytest.raises(ValueError):
            twin.decode_q4(bad_q, bad_d)


# The vector stages


def test_silu_by_hand() -> None:
    x = np.array([0, -0.0, 1, -1, 65504, -65504, 20, -30, 2.0**-24], np.float16).view(np.uint16)
    expected = [0, 0x8000, 0x39D9, 0xB44E, 0x7BFF, 0x8000, 0x4D00, 0x8000, 1]
    assert list(twin.silu_table()[x]) == expected  # silu(±1) = 0.73106, -0.26894
    assert set(twin.silu_table()[0x7C00:0x8000]) == {0x7BFF} and set(twin.silu_table()[0xFC00:]) == {0x8000}
    with pytest.raises(ValueError):
        twin.silu_table()[0] = 1


def test_no_silu_lies_close_to_the_middle_between_two_codes() -> None:
    silu = np.abs(twin._silu(twin.clamped(ALL_CODES).astype(np.float64)))
    code = twin.silu_table() & 0x7FFF
    middles = [(twin.value(code) + twin.value(other)) / 2 for other in (code + 1, np.maximum(code, 1) - 1)]
    distance = np.minimum(*[np.abs(silu - middle) for middle in middles])
    visible = silu > 2.0**-26
    assert (distance[visible] > 2.0**-38 * silu[visible]).all()


def test_swiglu_is_the_rounded_product() -> None:
    rng = np.random.default_rng(11)
    gate, up = rng.integers(0, 1 << 16, (2, 100_000)).astype(np.uint16)
    gate[:50_000] = gate[:50_000] & 0x87FF | 0x3800  # near 1: fewer results overflow or vanish
    exact = twin.value(twin.silu_table()[gate]) * twin.clamped(up)  # 22 bits: exact in float64
    expected = np.clip(exact, -65504, 65504).astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(twin.swiglu(gate, up), expected)


def test_swiglu_multiplies_signs_also_of_zeros() -> None:
    gate = np.array([0x8000, 0x8000, 0x0000, 0x0001, 0x7C00, 0x7C00], np.uint16)
    up = np.array([0x3C00, 0xBC00, 0x8000, 0x8001, 0xFFFF, 0x3C00], np.uint16)
    assert list(twin.swiglu(gate, up)) == [0x8000, 0, 0x8000, 0x8000, 0xFBFF, 0x7BFF]


def test_scatter_rounds_product_and_sum_and_keeps_the_order() -> None:
    y = np.zeros((3, 2), np.float32)
    y[0] = -np.float32(1 + 2**-10 + 2**-23)  # the product below, rounded: fused, 2^-33 would be left
    y[1] = 2**24
    out = np.array([[1 + 2**-10] * 2, [1, -1], [1, 1], [-16384, 16384]], np.float16).view(np.uint16)
    weight = np.array([1 + 2**-23, 1, 1, 1024], np.float32)
    twin.scatter_add(y, out, np.array([0, 1, 1, 1], np.int32), weight)
    np.testing.assert_array_equal(y, np.array([[0, 0], [0, 2**25], [0, 0]], np.float32))


def test_scatter_clamps_exponent_31() -> None:
    y = np.zeros((1, 2), np.float32)
    twin.scatter_add(y, np.array([[0x7C00, 0xFFFF]], np.uint16), np.array([0], np.int32), np.ones(1, np.float32))
    assert list(y[0]) == [65504, -65504]


def identity(rows: int, columns: int, scale: float) -> twin.Quantised:
    q = np.full((rows, columns), 8, np.uint8)
    np.fill_diagonal(q, 9)
    return q, np.full((rows, columns // 32), scale, np.float16)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_bank_adds_its_experts_slot_by_slot(profile: str) -> None:
    # Gate 1, up 2, down ±1 on the diagonal, 64 columns of FFN: y += ±α · fp16(silu(x) · 2x).
    rng = np.random.default_rng(12)
    x, y = rng.uniform(-4, 4, (2, 3, 32)).astype(np.float32)
    offsets, token = np.array([0, 2, 2, 2, 4]), np.array([2, 0, 2, 2], np.int32)
    weight = rng.uniform(0, 1, 4).astype(np.float32)
    first = (identity(64, 32, 1), identity(64, 32, 2), identity(32, 64, 1))
    last = (first[0], first[1], identity(32, 64, -1))
    expected = y.copy()
    rounded = x.astype(np.float16)
    s = twin.silu_table()[rounded.view(np.uint16)].view(np.float16).astype(np.float64)
    h = (s * 2 * rounded).astype(np.float16).astype(np.float32)
    for i, sign in enumerate([1, 1, -1, -1]):
        expected[token[i]] += weight[i] * (np.float32(sign) * h[token[i]])
    twin.expert_bank(x, y, offsets, token, weight, [first, None, first, last], profile)
    np.testing.assert_array_equal(y, expected)


def test_a_slot_with_records_needs_an_expert() -> None:
    x = np.zeros((1, 32), np.float32)
    with pytest.raises(ValueError, match="slot 0"):
        one = np.zeros(1, np.int32), np.ones(1, np.float32)
        twin.expert_bank(x, x.copy(), np.array([0, 1]), *one, [None], "ieee_fp32")
