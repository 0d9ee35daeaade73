"""Weights of a byte: every variant's products are exact, start from the records that nibbles have too, and fit."""

import re
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
from estream_lab.kernels.int8.dot import DOTS
from estream_lab.kernels.int8.dot_q8 import DOTS_Q8, BiasedVpdpbusd, SignedSdot
from estream_lab.kernels.int8.product import register_block
from estream_lab.kernels.int8.q8 import Q8, pack_q8_32x32
from estream_lab.kernels.int8.records import RECORD_BYTES, quantiser
from estream_lab.kernels.int8.weights import Octets
from estream_lab.kernels.packed.product import emit_product, product_kernel
from tests.kernels.int8.emulated import four_products
from tests.kernels.machine_code import APPLE, ARM, X86, assembly_of

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]

BLOCKS = 3
EmulatedVpdpbusd = type("EmulatedVpdpbusd", (BiasedVpdpbusd,), {"step": four_products(signed=False)})
EmulatedSdot = type("EmulatedSdot", (SignedSdot,), {"step": four_products(signed=True)})
OPERATIONS = {variant.name: DOTS_Q8[variant.name] for variant in VARIANTS if variant.needs <= features()}
OPERATIONS |= {  # of two rows: they compile slowly
    f"{name}, emulated": kind(**{**asdict(DOTS_Q8[name]), "rows": 2})
    for name, kind in (("avx512-vnni", EmulatedVpdpbusd), ("neon-dot", EmulatedSdot))
}


@cache
def strip_product(name: str) -> Callable[[F32, U8, U8, F32], None]:
    """Add (rows, K) activations times a strip of bytes to c. Records are made as the variant makes them for nibbles."""
    dot = OPERATIONS[name]
    quantise = quantiser(DOTS[name.split(",")[0]])
    kernel = product_kernel(register_block(dot, Octets), range(1, dot.rows + 1))

    @njit
    def run(x: F32, w: U8, records: U8, c: F32) -> None:
        rows, blocks = len(x), x.shape[1] // 32
        for block in range(blocks):
            for r in range(rows):
                quantise(address(x) + 4 * (r * 32 * blocks + 32 * block), address(records) + 40 * (block * rows + r))
        kernel(rows, address(records), address(w), blocks, address(c))

    return run


def product(name: str, x: F32, weights: Q8, c: F32) -> F32:
    records = np.zeros(len(x) * x.shape[1] // 32 * RECORD_BYTES, np.uint8)
    guarded = np.full((len(x) + 1, 32), 7, np.float32)
    guarded[: len(x)] = c
    strip_product(name)(x, pack_q8_32x32(*weights).reshape(-1), records, guarded)
    assert (guarded[-1] == 7).all()  # nothing beyond the register block is touched
    return guarded[: len(x)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_register_block_equals_numpy(name: str) -> None:
    for rows in range(1, OPERATIONS[name].rows + 1):
        rng = np.random.default_rng(rows)
        x = rng.standard_normal((rows, 32 * BLOCKS)).astype(np.float32)
        d = (rng.standard_normal((32, BLOCKS)) * 10.0 ** rng.integers(-7, 3, (32, BLOCKS))).astype(np.float16)
        d[:4, 0] = [6e-8, -6e-8, 6e-5, 0]  # subnormal and zero scales
        weights = rng.integers(-128, 128, (32, 32 * BLOCKS)).astype(np.int8), d
        got = product(name, x, weights, np.zeros((rows, 32), np.float32))
        assert got.tobytes() == reference.linear_q8(*reference.quantise(x), weights).tobytes()
        assert product(name, x, weights, got).tobytes() != got.tobytes()  # sums go on from what is there


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("weight", [127, -127, -128])
def test_the_largest_products_are_exact(name: str, sign: int, weight: int) -> None:
    """All activations of one sign, or of one sign at every other place: what an int16 could saturate at."""
    x = np.full((2, 32 * BLOCKS), sign, np.float32)
    x[1, 1::2] = -sign
    q = np.full((32, 32 * BLOCKS), weight, np.int8)
    q[16:, 1::2] = -max(weight, -127)
    d = np.ones((32, BLOCKS), np.float16)
    got = product(name, x, (q, d), np.zeros((2, 32), np.float32))
    assert got.tobytes() == reference.linear_q8(*reference.quantise(x), (q, d)).tobytes()
    assert abs(got[0, 0] - sign * weight * 32 * BLOCKS) <= 1e-4 * abs(got[0, 0])


def test_rows_are_cut_as_for_nibbles() -> None:
    """Records lie in the order of register blocks (`lane.record_place`), and both kinds of weights read them."""
    assert {name: dot.rows for name, dot in DOTS_Q8.items()} == {name: dot.rows for name, dot in DOTS.items()}


@pytest.mark.parametrize(
    ("name", "triple", "processor", "instruction"),
    [
        ("avx512-vnni", X86, "sapphirerapids", r"vpdpbusd.*%zmm"),
        ("avx-vnni", X86, "alderlake", r"vpdpbusd.*%ymm"),
        ("avx2", X86, "haswell", r"vpmaddubsw.*%ymm"),
        ("avx2", X86, "znver3", r"vpmaddubsw.*%ymm"),
        ("neon-dot", ARM, "neoverse-n1", r"\bsdot\b"),
        ("neon-dot", APPLE, "apple-m1", r"\bsdot\b"),
        ("portable", X86, "x86-64", r"pmullw|pmaddwd"),
    ],
)
def test_compiles_to_its_instruction(name: str, triple: str, processor: str, instruction: str) -> None:
    dot = DOTS_Q8[name]
    block, sizes = register_block(dot, Octets), range(1, dot.rows + 1)
    code = assembly_of(lambda builder, *given: emit_product(builder, block, sizes, *given), 5, triple, processor)
    rows = dot.rows * (dot.rows + 1) // 2  # of all register blocks
    assert len(re.findall(instruction, code)) >= 8 * dot.vectors * rows
    calls = re.findall(r"^\s+(?:callq?|bl)\s+(\S+)", code, re.MULTILINE)
    assert bool(calls) == (processor == "x86-64"), calls  # x86-64 alone has no fma
    if name == "avx2":  # magnitudes of weights once for all rows, signs once a row
        assert code.count("vpabsb") == 8 * dot.vectors * dot.rows
        assert code.count("vpsignb") == 8 * dot.vectors * rows
