"""The numba kernels and their twin in plain NumPy, written by another hand: equal bit for bit, over a census."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.kernels import exact
from estream_lab.kernels.exact import PROFILES, ExactOperator, twin
from estream_lab.kernels.layout import pack_q4_32x32
from tests.kernels.exact.groups import adversarial_groups, random_groups

U16 = NDArray[np.uint16]
CODES = np.arange(1 << 16, dtype=np.uint16)
GAPS = range(41)


def equal(left: NDArray[np.generic], right: NDArray[np.generic]) -> bool:
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


def gap_rows(size: int, gap: int, rng: np.random.Generator) -> tuple[U16, U16]:
    """Rows of 32 whose products in each group of `size` are `gap` exponents apart: (n, 32) each."""
    high = rng.integers(max(1, gap - 30 + 1), 31, 64)  # the sum of two codes' exponents, less that of the others
    a = rng.integers(0, 1 << 16, (64, 32)).astype(np.uint16) & 0x83FF
    b = rng.integers(0, 1 << 16, (64, 32)).astype(np.uint16) & 0x83FF
    top = high[:, None]
    far = (np.arange(32) % size != 0) & (np.arange(32) % 2 == 1)
    lower = np.where(far, gap, 0)
    ea = np.maximum(top - lower, 0)  # down to subnormals
    eb = np.clip(30 - np.maximum(lower - top, 0), 0, 31)
    return (a | ea.astype(np.uint16) << 10).astype(np.uint16), (b | eb.astype(np.uint16) << 10).astype(np.uint16)


def full_groups(rng: np.random.Generator) -> tuple[U16, U16]:
    """Sums near the top of an accumulator: groups of large products of one sign, each with the one before it or not."""
    large = (rng.integers(1000, 1024, (2, 128, 64)) | 15 << 10).astype(np.uint16)
    size = np.where(np.arange(128) % 2, 4, 8)[:, None]
    signs = rng.integers(0, 2, (128, 16))[np.arange(128)[:, None], np.arange(64) // size]
    signs[::4] = np.arange(2)[rng.integers(0, 2, 32)][:, None]  # all of one sign
    return large[0] | (signs << 15).astype(np.uint16), large[1]


def products(rng: np.random.Generator) -> Iterator[tuple[str, U16, U16]]:
    """Pairs of (n, K) codes; output (i, i) is the case, and all others are more of its kind."""
    for gap in GAPS:
        for size in (4, 8):
            yield f"gap {gap}", *gap_rows(size, gap, rng)
    a, b = random_groups(rng, 256)
    yield "random", a, b
    yield "full groups", *full_groups(rng)
    by_width: dict[int, list[tuple[U16, U16]]] = {}
    for _, left, right in adversarial_groups(rng, 512):
        by_width.setdefault(left.shape[-1], []).append((left.reshape(-1), right.reshape(-1)))
    for width, pairs in by_width.items():
        yield f"adversarial {width}", np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


def padded(b: U16) -> U16:
    """Weights with whole strips of outputs."""
    return np.concatenate([b, np.zeros((-len(b) % 32, b.shape[1]), np.uint16)])


@pytest.mark.parametrize("profile", PROFILES)
def test_products_of_every_kind(profile: str) -> None:
    cases, kinds = 0, set()
    for kind, a, b in products(np.random.default_rng(7)):
        weights = padded(b)
        found, expected = exact.matmul(a, weights, profile), twin.matmul(a, weights, profile)
        assert equal(found, expected), (kind, np.argwhere(found != expected)[:3])
        cases += found.size
        kinds.add(kind)
    assert {f"gap {gap}" for gap in GAPS} <= kinds
    assert cases > 500_000


def test_37_and_39_bits_store_the_same() -> None:
    for kind, a, b in products(np.random.default_rng(8)):
        weights = padded(b)
        assert equal(exact.matmul(a, weights, "hmx_v79_g8"), exact.matmul(a, weights, "hmx_v81_g8_a39")), kind


def test_groups_of_four_and_of_eight_are_told_apart() -> None:
    a, b = random_groups(np.random.default_rng(9), 256)
    assert (exact.matmul(a, b, "hmx_v73_g4") != exact.matmul(a, b, "hmx_v75_g8")).any()


def test_gathering_every_kind_of_number() -> None:
    rng = np.random.default_rng(1)
    around = exact.value(CODES).astype(np.float32)
    middles = (around[:-1].astype(np.float64) + around[1:]) / 2
    x = np.concatenate([
        around, middles.astype(np.float32), np.nextafter(middles.astype(np.float32), np.float32(0)),
        np.nextafter(middles.astype(np.float32), np.float32(np.inf)),
        rng.integers(0, 0x7F800000, 200_000).astype(np.uint32).view(np.float32),
        np.array([0.0, -0.0, 65504, 65519.99, 65520, -65520, 3e38, 1e-45, 2**-25, 2**-24], np.float32),
    ]).astype(np.float32)  # fmt: skip
    assert equal(exact.gather(x), twin.gather(x))
    inside = x[np.abs(x) < 65520]
    assert equal(exact.gather(inside), inside.astype(np.float16).view(np.uint16))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="finite"):
            exact.gather(np.array([bad], np.float32))


def test_swiglu_of_every_gate_code_with_many_up_codes() -> None:
    rng, cases = np.random.default_rng(2), 0
    special = np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x7C00, 0x7FFF, 0xFFFF], np.uint16)
    for up in [*special, *rng.integers(0, 1 << 16, 9).astype(np.uint16)]:
        ups = np.full(1 << 16, up, np.uint16)
        assert equal(exact.swiglu(CODES, ups), twin.swiglu(CODES, ups))
        cases += len(CODES)
    mixed = rng.permutation(CODES)
    assert equal(exact.swiglu(CODES, mixed), twin.swiglu(CODES, mixed))
    assert equal(exact.silu_table(), twin.silu_table())
    assert cases == 20 * 65536


def test_decoding_every_scale_that_is_not_refused() -> None:
    scales = CODES[(CODES & 0x7FFF) < 0x7000]
    q = np.tile(np.arange(32, dtype=np.uint8) % 16, (len(scales), 1))
    d = scales.view(np.float16)[:, None]
    assert equal(exact.decode_q4(q, d), twin.decode_q4(q, d))
    with pytest.raises(ValueError, match="0 to 15"):
        exact.decode_q4(q[:1] + 1, d[:1])
    for refused in (0x7000, 0xF000, 0x7C00, 0x7E00):
        with pytest.raises(ValueError, match="8192"):
            exact.decode_q4(q[:1], np.array([[refused]], np.uint16).view(np.float16))


class Bank:
    """Some slots with Q4 experts, as an arena and as plain weights."""

    def __init__(self, hidden: int, ffn: int, slots: int, rng: np.random.Generator) -> None:
        self.hidden, self.ffn = hidden, ffn
        sizes = ((ffn, hidden), (ffn, hidden), (hidden, ffn))
        self.experts = [tuple(self._weights(rng, *size) for size in sizes) for _ in range(slots)]
        self.planes, parts, at = np.zeros((3, slots), np.int64), [], 0
        for slot, expert in enumerate(self.experts):
            for j, (q, d) in enumerate(expert):
                self.planes[j, slot] = at
                parts.append(pack_q4_32x32(q, d))
                at += len(parts[-1])
        self.arena = np.concatenate(parts)

    @staticmethod
    def _weights(rng: np.random.Generator, rows: int, depth: int) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
        q = rng.integers(0, 16, (rows, depth)).astype(np.uint8)
        d = (rng.standard_normal((rows, depth // 32)) * 2.0 ** rng.integers(-12, -1)).astype(np.float16)
        d[rng.random(d.shape) < 0.05] = np.float16(-0.0)
        d[rng.random(d.shape) < 0.05] = np.float16(2**-20)  # subnormal
        return q, d

    def compare(self, counts: list[int], tokens: int, profile: str, seed: int, vtcm_bytes: int = 8 << 20) -> int:
        """Both on routes with `counts` records a slot; how many records."""
        rng = np.random.default_rng(seed)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        records = int(offsets[-1])
        token = rng.integers(0, tokens, records).astype(np.int32)  # duplicates, also within a slot
        weight = rng.random(records).astype(np.float32)
        scale = np.exp2(rng.integers(-8, 18, (tokens, 1)))  # up to beyond 65504
        x = (rng.standard_normal((tokens, self.hidden)) * scale).astype(np.float32)
        x[rng.random(x.shape) < 0.02] = np.float32(-0.0)
        y = rng.standard_normal((tokens, self.hidden)).astype(np.float32)
        expected = y.copy()
        routes = (offsets, token, weight)
        operator = ExactOperator(self.hidden, self.ffn, max(1, sum(counts)), profile, vtcm_bytes)
        operator(x, y, *routes, self.arena, *self.planes)
        experts = [e if n else None for e, n in zip(self.experts, counts, strict=True)]
        twin.expert_bank(x, expected, *routes, experts, profile)  # type: ignore[arg-type]
        assert equal(y, expected)
        return records


@pytest.mark.parametrize("profile", PROFILES)
def test_whole_operator(profile: str) -> None:
    bank = Bank(96, 64, 3, np.random.default_rng(3))
    rows = sum(bank.compare([n, 0, 1], 20, profile, n) for n in range(1, 71))
    assert rows == sum(range(1, 71)) + 70
    assert bank.compare([0, 0, 0], 5, profile, 0) == 0


@pytest.mark.parametrize("profile", ["ieee_fp32", "hmx_v73_g4", "hmx_v75_g8"])
def test_more_rows_than_a_block_of_them(profile: str) -> None:
    assert Bank(64, 160, 3, np.random.default_rng(4)).compare([200, 0, 129], 90, profile, 5) == 329


@pytest.mark.parametrize("profile", ["ieee_fp32", "hmx_v73_g4", "hmx_v75_g8"])
@pytest.mark.parametrize("vtcm_bytes", [8 << 20, 235_000])
def test_small_tiles_and_short_last_ones(profile: str, vtcm_bytes: int) -> None:
    """235,000 bytes leave room for tiles of 32 rows and panels of 32 columns only; 8 MiB for all at once."""
    bank = Bank(160, 224, 2, np.random.default_rng(4))
    plan = ExactOperator(160, 224, 70, profile, vtcm_bytes).plan
    assert plan.ffn_panels * plan.hidden_panels * plan.row_tiles(70) == (1 if vtcm_bytes > 1 << 20 else 7 * 5 * 3)
    bank.compare([70, 33], 40, profile, 5, vtcm_bytes)


def test_short_last_panels() -> None:
    """Panels of 64 and 96 columns where 160 and 224 are not multiples of them."""
    bank = Bank(160, 224, 1, np.random.default_rng(6))
    plans = {v: ExactOperator(160, 224, 33, "hmx_v75_g8", v).plan for v in range(220_000, 600_000, 4_000)}
    short = [v for v, p in plans.items() if p.ffn % p.ffn_columns and p.hidden % p.hidden_columns]
    assert len(short) > 3
    for vtcm_bytes in short[:: max(1, len(short) // 4)]:
        bank.compare([33], 40, "hmx_v75_g8", 7, vtcm_bytes)
