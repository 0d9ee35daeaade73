"""A peak is made of the instructions that it counts, and of nothing that a register block could do without."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from estream_lab.kernels import host
from estream_lab.kernels.apart import address_of
from estream_lab.kernels.bf16 import peak as bf16
from estream_lab.kernels.bf16.dot import DOTS as BF16
from estream_lab.kernels.host import peak as fp32
from estream_lab.kernels.host.registers import CHAINS, STEPS, emit_turns, take_turns
from estream_lab.kernels.host.vector_ir import LANES
from estream_lab.kernels.int8 import peak as int8
from estream_lab.kernels.int8.dot import DOTS as INT8
from estream_lab.kernels.int8.weights import QUADS
from estream_lab.kernels.vectors import F32, vector
from tests.kernels.machine_code import ARM, X86, assembly_of, module_of

PEAKS: dict[str, Callable[..., float]] = {"fp32": fp32.fma_peak, "int8": int8.peak, "bf16": bf16.peak}


def emitter(lane: str, name: str) -> Any:
    """What emits the turns of a variant; of fp32, which has none, the name is the number of lanes."""
    if lane == "fp32":
        return partial(emit_turns, fp32.turn, vector(F32, int(name)))
    if lane == "int8":
        return partial(emit_turns, partial(int8.turn, INT8[name]), INT8[name].words)
    return partial(emit_turns, partial(bf16.turn, BF16[name]), BF16[name].sums)


@pytest.mark.parametrize(
    ("lane", "name", "triple", "processor", "wanted"),
    [
        ("fp32", "8", X86, "znver3", {"vfmadd\\w+ps": 8}),
        ("fp32", "16", X86, "sapphirerapids", {"vfmadd\\w+ps": 8}),
        ("fp32", "8", ARM, "neoverse-n1", {"fmla": 2 * 8}),  # of four lanes each
        ("int8", "avx2", X86, "znver3", {"vpmaddubsw": 8, "vpaddw": 8, "vpmaddwd": 1, "vpaddd": 1}),
        ("int8", "avx-vnni", X86, "alderlake", {"vpdpbusd": 8}),
        ("int8", "avx512-vnni", X86, "sapphirerapids", {"vpdpbusd": 8}),
        ("int8", "neon-dot", ARM, "neoverse-n1", {"sdot": 8}),
        ("bf16", "avx512-bf16", X86, "znver4", {"vdpbf16ps": 8}),
        ("bf16", "avx2", X86, "znver3", {"vfmadd\\w+ps": 8}),
        ("bf16", "portable", ARM, "neoverse-n1", {"fmla": 8}),
    ],
)
def test_a_turn_has_the_instructions_that_are_counted(
    lane: str, name: str, triple: str, processor: str, wanted: dict[str, int]
) -> None:
    code = assembly_of(emitter(lane, name), 2, triple, processor)
    for instruction, each in wanted.items():
        assert len(re.findall(rf"\b{instruction}\b", code)) == each * CHAINS
    assert not re.search(r"mm\d+, -?\d*\(%rsp\)|q\d+, \[sp", code)  # nothing is kept on the stack


def test_a_turn_counts_its_multiply_adds() -> None:
    assert CHAINS * STEPS * LANES == fp32.MULTIPLY_ADDS
    assert STEPS == QUADS
    assert {name: int8.multiply_adds(dot) for name, dot in INT8.items()} == {
        name: CHAINS * STEPS * dot.lanes * 4 for name, dot in INT8.items()
    }
    products = {"avx512-bf16": 32, "avx2": 8, "portable": 4}  # of a step
    assert {name: bf16.multiply_adds(dot) for name, dot in BF16.items()} == {
        name: CHAINS * STEPS * each for name, each in products.items()
    }


@pytest.mark.parametrize(
    ("lane", "name"), [("fp32", "8"), *(("int8", name) for name in INT8), *(("bf16", name) for name in BF16)]
)
def test_every_variant_is_valid_code(lane: str, name: str) -> None:
    llvm.parse_assembly(str(module_of(emitter(lane, name), 2))).verify()


def turned(kernel: Callable[[int, int], None], turns: int, words: np.ndarray) -> np.ndarray:
    """The sums after some turns."""
    taken = np.zeros(1, np.int64)
    take_turns(address_of(kernel), turns, words.reshape(-1), taken.ctypes.data, 1)
    assert taken[0] == 2  # shares, and the attempt to take one more
    return words[2:]


def test_fp32_turns_compute_what_numpy_does() -> None:
    numbers = np.zeros((2 + CHAINS, LANES), np.float32)
    numbers[0], numbers[1] = 1.5, np.arange(LANES)
    expected = numbers[0].copy()
    for _ in range(2 * STEPS):
        expected = (expected.astype(np.float64) + numbers[0] * numbers[1]).astype(np.float32)
    assert np.array_equal(turned(fp32._turns, 2, numbers), np.broadcast_to(expected, (CHAINS, LANES)))


def test_bf16_turns_add_every_product() -> None:
    lanes = bf16._DOT.lanes
    words = np.zeros((2 + CHAINS, lanes), np.float32)
    words[:2] = np.array([0, 0x3F80], np.uint16).view(np.float32)[0]  # bf16's 0 and 1, or fp32's 1
    assert np.array_equal(turned(bf16._turns, 3, words), np.full((CHAINS, lanes), 1 + 3 * STEPS, np.float32))


@pytest.mark.parametrize("lane", PEAKS)
def test_is_a_rate(lane: str) -> None:
    for threads in {1, host.thread_limit()}:
        assert 1e8 < PEAKS[lane](threads, rounds=2) < 1e14
