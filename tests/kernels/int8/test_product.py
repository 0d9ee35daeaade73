"""The micro-kernel is exact in its integers and the same chain of roundings for every variant and register block."""

from collections.abc import Callable
from dataclasses import asdict
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.kernels.features import features
from estream_lab.kernels.int8 import VARIANTS, reference
from estream_lab.kernels.int8.dot import DOTS, Sdot, Vpdpbusd
from estream_lab.kernels.int8.product import register_block
from estream_lab.kernels.int8.records import RECORD_BYTES, quantiser
from estream_lab.kernels.int8.weights import PANEL_BLOCK_BYTES, Packed, Panel, panel_decoder
from tests.kernels.int8.emulated import four_products
from tests.kernels.packed.products import BLOCKS, Micro, problem

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]


EmulatedVpdpbusd = type("EmulatedVpdpbusd", (Vpdpbusd,), {"step": four_products(signed=False)})
EmulatedSdot = type("EmulatedSdot", (Sdot,), {"step": four_products(signed=True)})
OPERATIONS = {variant.name: DOTS[variant.name] for variant in VARIANTS if variant.needs <= features()}
OPERATIONS |= {  # of two rows: they compile slowly
    f"{name}, emulated": kind(**{**asdict(DOTS[name]), "rows": 2})
    for name, kind in (("avx512-vnni", EmulatedVpdpbusd), ("neon-dot", EmulatedSdot))
}


@cache
def product(name: str, packed: bool) -> Callable[[F32, U8, NDArray[np.float16], F32], F32]:
    """Add activations times a strip to sums: see `Micro.product`."""
    dot = OPERATIONS[name]
    blocks = register_block(dot, Packed), register_block(dot, Panel)
    return Micro(dot, RECORD_BYTES, PANEL_BLOCK_BYTES, quantiser(dot), panel_decoder(dot), *blocks).product(packed)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_register_block_equals_numpy(name: str, packed: bool) -> None:
    for rows in range(1, OPERATIONS[name].rows + 1):
        x, q, d = problem(rows, rows)
        got = product(name, packed)(x, q, d, np.zeros((rows, 32), np.float32))
        assert got.tobytes() == reference.linear(*reference.quantise(x), (q, d)).tobytes()
        assert product(name, packed)(x, q, d, got).tobytes() != got.tobytes()  # sums go on from what is there


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
    got = product(name, packed)(x, q, d, np.zeros((2, 32), np.float32))
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
