"""The micro-kernel is exact in its integers and the same chain of roundings for every variant and register block."""

from collections.abc import Callable
from dataclasses import asdict
from functools import cache

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.features import features
from estream_lab.kernels.host.vector_ir import address
from estream_lab.kernels.int8 import VARIANTS, reference
from estream_lab.kernels.int8.dot import DOTS, Sdot, Vpdpbusd
from estream_lab.kernels.int8.product import product_kernel
from estream_lab.kernels.int8.records import RECORD_BYTES, quantiser
from estream_lab.kernels.int8.weights import PANEL_BLOCK_BYTES, Packed, Panel, panel_decoder
from estream_lab.kernels.layout import pack_q4_32x32
from tests.kernels.int8.emulated import four_products

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]


EmulatedVpdpbusd = type("EmulatedVpdpbusd", (Vpdpbusd,), {"step": four_products(signed=False)})
EmulatedSdot = type("EmulatedSdot", (Sdot,), {"step": four_products(signed=True)})
OPERATIONS = {variant.name: DOTS[variant.name] for variant in VARIANTS if variant.needs <= features()}
OPERATIONS |= {  # of two rows: they compile slowly
    f"{name}, emulated": kind(**{**asdict(DOTS[name]), "rows": 2})
    for name, kind in (("avx512-vnni", EmulatedVpdpbusd), ("neon-dot", EmulatedSdot))
}
BLOCKS = 3


@cache
def strip_product(name: str, packed: bool) -> Callable[[F32, U8, U8, U8, F32], None]:
    """Add (rows, K) activations times a strip of packed blocks to c: quantised, decoded and multiplied as compiled."""
    dot = OPERATIONS[name]
    quantise, decode = quantiser(dot), panel_decoder(dot)
    kernel = product_kernel(dot, Packed if packed else Panel)

    @njit
    def multiply(rows: int, records: int, w: int, blocks: int, c: int) -> None:
        kernel(rows, records, w, blocks, c)

    @njit
    def take_apart(w: int, blocks: int, panel: int) -> None:
        decode(w, blocks, panel)

    @njit
    def run(x: F32, w: U8, records: U8, panel: U8, c: F32) -> None:
        rows, blocks = len(x), x.shape[1] // 32
        for block in range(blocks):
            for r in range(rows):
                quantise(address(x) + 4 * (r * 32 * blocks + 32 * block), address(records) + 40 * (block * rows + r))
        take_apart(address(w), blocks, address(panel))
        multiply(rows, address(records), address(w) if packed else address(panel), blocks, address(c))

    return run


def product(name: str, packed: bool, x: F32, q: U8, d: NDArray[np.float16], c: F32) -> F32:
    records = np.zeros(len(x) * x.shape[1] // 32 * RECORD_BYTES, np.uint8)
    panel = np.zeros(x.shape[1] // 32 * PANEL_BLOCK_BYTES, np.uint8)
    guarded = np.full((len(x) + 1, 32), 7, np.float32)
    guarded[: len(x)] = c
    strip_product(name, packed)(x, pack_q4_32x32(q, d), records, panel, guarded)
    assert (guarded[-1] == 7).all()  # nothing beyond the register block is touched
    return guarded[: len(x)]


def problem(rows: int, seed: int) -> tuple[F32, U8, NDArray[np.float16]]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 32 * BLOCKS)).astype(np.float32)
    d = (rng.standard_normal((32, BLOCKS)) * 10.0 ** rng.integers(-7, 3, (32, BLOCKS))).astype(np.float16)
    d[:4, 0] = [6e-8, -6e-8, 6e-5, 0]  # subnormal and zero scales
    return x, rng.integers(0, 16, (32, 32 * BLOCKS), dtype=np.uint8), d


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_register_block_equals_numpy(name: str, packed: bool) -> None:
    for rows in range(1, OPERATIONS[name].rows + 1):
        x, q, d = problem(rows, rows)
        got = product(name, packed, x, q, d, np.zeros((rows, 32), np.float32))
        assert got.tobytes() == reference.linear(*reference.quantise(x), (q, d)).tobytes()
        assert product(name, packed, x, q, d, got).tobytes() != got.tobytes()  # sums go on from what is there


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("nibble", [0, 15])
def test_the_largest_products_are_exact(name: str, packed: bool, sign: int, nibble: int) -> None:
    """All activations of one sign, or of one sign at every other place: what an int16 could saturate at."""
    x = np.full((2, 32 * BLOCKS), sign, np.float32)
    x[1, 1::2] = -sign
    q = np.full((32, 32 * BLOCKS), nibble, np.uint8)
    q[16:, 1::2] = 15 - nibble
    d = np.ones((32, BLOCKS), np.float16)
    got = product(name, packed, x, q, d, np.zeros((2, 32), np.float32))
    assert got.tobytes() == reference.linear(*reference.quantise(x), (q, d)).tobytes()
    assert abs(got[0, 0] - sign * (nibble - 8) * 32 * BLOCKS) <= 1e-4 * abs(got[0, 0])


def test_error_of_the_sums_is_within_its_bound() -> None:
    """n blocks: each product of scales and each sum is rounded once, so (n + 1) half ulps of the sum of magnitudes."""
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((9, 2048)) * np.exp(rng.standard_normal((1, 2048)))).astype(np.float32)
    nibbles, d = rng.integers(0, 16, (40, 2048), dtype=np.uint8), rng.standard_normal((40, 64)).astype(np.float16)
    q, scale = reference.quantise(x)
    exact = np.einsum("rbi,nbi->rnb", q.reshape(9, 64, 32).astype(float), nibbles.reshape(40, 64, 32) - 8.0)
    terms = exact * scale[:, None].astype(float) * d[None].astype(float)
    error = np.abs(reference.linear(q, scale, (nibbles, d)) - terms.sum(axis=-1))
    assert (error <= (64 + 1) * 2.0**-24 * np.abs(terms).sum(axis=-1)).all()
    assert error.any()
