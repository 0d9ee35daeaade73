"""The micro-kernel is the same chain of roundings for every variant and register block."""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.bf16 import VARIANTS, reference
from estream_lab.kernels.bf16.dot import DOTS
from estream_lab.kernels.bf16.product import product_kernel
from estream_lab.kernels.bf16.rounding import rounder
from estream_lab.kernels.bf16.weights import Packed, Panel, panel_block_bytes, panel_decoder
from estream_lab.kernels.features import features
from estream_lab.kernels.host.vector_ir import address
from estream_lab.kernels.layout import pack_q4_32x32
from tests.kernels.bf16.emulated import EmulatedVdpbf16ps

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]

HERE = [variant.name for variant in VARIANTS if variant.needs <= features()]
# A processor without fp16 conversion or fused multiply-adds has them from a library, which compiles slowly.
OPERATIONS = {name: DOTS[name] for name in HERE} | {"portable": replace(DOTS["portable"], rows=2)}
OPERATIONS["avx512-bf16, emulated"] = EmulatedVdpbf16ps(**{**asdict(DOTS["avx512-bf16"]), "rows": 2})
BLOCKS = 3


@cache
def strip_product(name: str, packed: bool) -> Callable[[F32, U8, U8, U8, F32], None]:
    """Add (rows, K) activations times a strip of packed blocks to c: rounded, decoded and multiplied as compiled."""
    dot = OPERATIONS[name]
    round_record, decode = rounder(dot), panel_decoder(dot)
    kernel = product_kernel(dot, Packed if packed else Panel)
    size = dot.record_bytes

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
                record = address(records) + size * (block * rows + r)
                round_record(address(x) + 4 * (r * 32 * blocks + 32 * block), record)
        take_apart(address(w), blocks, address(panel))
        multiply(rows, address(records), address(w) if packed else address(panel), blocks, address(c))

    return run


def product(name: str, packed: bool, x: F32, q: U8, d: NDArray[np.float16], c: F32) -> F32:
    dot = OPERATIONS[name]
    records = np.zeros(len(x) * x.shape[1] // 32 * dot.record_bytes, np.uint8)
    panel = np.zeros(x.shape[1] // 32 * panel_block_bytes(dot), np.uint8)
    guarded = np.full((len(x) + 1, 32), 7, np.float32)
    guarded[: len(x)] = c
    strip_product(name, packed)(x, pack_q4_32x32(q, d), records, panel, guarded)
    assert (guarded[-1] == 7).all()  # nothing beyond the register block is touched
    return guarded[: len(x)]


def problem(rows: int, seed: int, exponents: float = 0) -> tuple[F32, U8, NDArray[np.float16]]:
    """Activations whose sizes spread over `exponents` powers of two to each side of 1."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 32 * BLOCKS)) * 2.0 ** rng.uniform(-exponents, exponents, (rows, 32 * BLOCKS))
    d = (rng.standard_normal((32, BLOCKS)) * 10.0 ** rng.integers(-7, 3, (32, BLOCKS))).astype(np.float16)
    d[:4, 0] = [6e-8, -6e-8, 6e-5, 0]  # subnormal and zero scales
    return x.astype(np.float32), rng.integers(0, 16, (32, 32 * BLOCKS), dtype=np.uint8), d


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_register_block_equals_numpy(name: str, packed: bool) -> None:
    for rows in range(1, OPERATIONS[name].rows + 1):
        x, q, d = problem(rows, rows)
        got = product(name, packed, x, q, d, np.zeros((rows, 32), np.float32))
        assert got.tobytes() == reference.linear(reference.rounded(x), (q, d)).tobytes()
        assert product(name, packed, x, q, d, got).tobytes() != got.tobytes()  # sums go on from what is there


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 20, 100]), st.sampled_from(sorted(OPERATIONS)))
def test_activations_of_any_sizes_side_by_side_equal_numpy(seed: int, exponents: int, name: str) -> None:
    """Down to those that are taken for zero: no variant may lose a sum that another one keeps."""
    x, q, d = problem(2, seed, exponents)
    x *= np.float32(2.0 ** (exponents - 124))
    x[:, ::3] = np.round(x[:, ::3])
    got = product(name, True, x, q, d, np.zeros((2, 32), np.float32))
    assert got.tobytes() == reference.linear(reference.rounded(x), (q, d)).tobytes()


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_order_of_the_chain_is_seen(name: str) -> None:
    """Products that round differently in any other order: each input in turn is large, and cancelled at the end."""
    for large in range(32):
        x, q, d = problem(1, large)
        x[0, large] = np.float32(2.0**20)
        q[:, large] = 15
        got = product(name, True, x, q, d, np.zeros((1, 32), np.float32))
        assert got.tobytes() == reference.linear(reference.rounded(x), (q, d)).tobytes()


def test_error_of_the_sums_is_within_its_bound() -> None:
    """n blocks: 32 roundings in a block and one of each sum, so (n + 32) half ulps of the sum of magnitudes."""
    rng = np.random.default_rng(4)
    x = reference.rounded((rng.standard_normal((9, 512)) * np.exp(rng.standard_normal((1, 512)))).astype(np.float32))
    q, d = rng.integers(0, 16, (40, 512), dtype=np.uint8), rng.standard_normal((40, 16)).astype(np.float16)
    w = (q - 8.0) * np.repeat(d.astype(float), 32, axis=1)
    terms = x[:, None].astype(float) * w
    error = np.abs(reference.linear(x, (q, d)) - terms.sum(axis=-1))
    assert (error <= (16 + 32) * 2.0**-24 * np.abs(terms).sum(axis=-1)).all()
    assert error.any()
