"""The micro-kernel is the same chain of roundings for every variant and register block."""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from estream_lab.kernels.bf16 import VARIANTS, reference
from estream_lab.kernels.bf16.dot import DOTS
from estream_lab.kernels.bf16.product import register_block
from estream_lab.kernels.bf16.rounding import rounder
from estream_lab.kernels.bf16.weights import Packed, Panel, panel_block_bytes, panel_decoder
from estream_lab.kernels.features import features
from tests.kernels.bf16.emulated import EmulatedVdpbf16ps
from tests.kernels.packed.products import Micro, problem

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]

HERE = [variant.name for variant in VARIANTS if variant.needs <= features()]
# A processor without fp16 conversion or fused multiply-adds has them from a library, which compiles slowly.
OPERATIONS = {name: DOTS[name] for name in HERE} | {"portable": replace(DOTS["portable"], rows=2)}
OPERATIONS["avx512-bf16, emulated"] = EmulatedVdpbf16ps(**{**asdict(DOTS["avx512-bf16"]), "rows": 2})


@cache
def product(name: str, packed: bool) -> Callable[[F32, U8, NDArray[np.float16], F32], F32]:
    """Add activations times a strip to sums: see `Micro.product`."""
    dot = OPERATIONS[name]
    blocks = register_block(dot, Packed), register_block(dot, Panel)
    sizes = dot.record_bytes, panel_block_bytes(dot)
    return Micro(dot, *sizes, rounder(dot), panel_decoder(dot), *blocks).product(packed)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_register_block_equals_numpy(name: str, packed: bool) -> None:
    for rows in range(1, OPERATIONS[name].rows + 1):
        x, q, d = problem(rows, rows)
        got = product(name, packed)(x, q, d, np.zeros((rows, 32), np.float32))
        assert got.tobytes() == reference.linear(reference.rounded(x), (q, d)).tobytes()
        assert product(name, packed)(x, q, d, got).tobytes() != got.tobytes()  # sums go on from what is there


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 20, 100]), st.sampled_from(sorted(OPERATIONS)))
def test_activations_of_any_sizes_side_by_side_equal_numpy(seed: int, exponents: int, name: str) -> None:
    """Down to those that are taken for zero: no variant may lose a sum that another one keeps."""
    x, q, d = problem(2, seed, exponents)
    x *= np.float32(2.0 ** (exponents - 124))
    x[:, ::3] = np.round(x[:, ::3])
    got = product(name, True)(x, q, d, np.zeros((2, 32), np.float32))
    assert got.tobytes() == reference.linear(reference.rounded(x), (q, d)).tobytes()


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_order_of_the_chain_is_seen(name: str) -> None:
    """Products that round differently in any other order: each input in turn is large, and cancelled at the end."""
    for large in range(32):
        x, q, d = problem(1, large)
        x[0, large] = np.float32(2.0**20)
        q[:, large] = 15
        got = product(name, True)(x, q, d, np.zeros((1, 32), np.float32))
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
