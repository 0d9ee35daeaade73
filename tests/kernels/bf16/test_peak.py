"""The peak is made of the instructions that it counts, and of nothing that a register block could do without."""

import re

import numpy as np
import pytest

from estream_lab.kernels import host
from estream_lab.kernels.bf16 import peak as module
from estream_lab.kernels.bf16.dot import DOTS
from estream_lab.kernels.bf16.peak import CHAINS, STEPS, emit_turns, multiply_adds, peak
from tests.kernels.int8.test_variants import ARM, X86, assembly_of


@pytest.mark.parametrize(
    ("name", "triple", "processor", "instruction", "products"),
    [
        ("avx512-bf16", X86, "znver4", "vdpbf16ps", 32),
        ("avx2", X86, "znver3", "vfmadd\\w+ps", 8),
        ("portable", ARM, "neoverse-n1", "fmla", 4),
    ],
)
def test_a_turn_has_the_instructions_that_are_counted(
    name: str, triple: str, processor: str, instruction: str, products: int
) -> None:
    code = assembly_of(lambda builder, *given: emit_turns(builder, DOTS[name], *given), 2, triple, processor)
    count = len(re.findall(rf"\b{instruction}\b", code))
    assert count == CHAINS * STEPS and multiply_adds(DOTS[name]) == count * products
    assert not re.search(r"mm\d+, -?\d*\(%rsp\)|q\d+, \[sp", code)  # nothing is kept on the stack


def test_turns_add_every_product() -> None:
    dot = module._DOT
    words = np.zeros((2 + CHAINS, dot.lanes), np.float32)
    pair = np.array([0, 0x3F80], np.uint16).view(np.float32)[0]  # bf16's 0 and 1, or fp32's 1
    words[:2] = pair
    taken = np.zeros(1, np.int64)
    module._take_turns(3, words.reshape(-1), taken.ctypes.data, 1)
    assert np.array_equal(words[2:], np.full((CHAINS, dot.lanes), 1 + 3 * STEPS, np.float32))


def test_is_a_rate() -> None:
    assert 1e8 < peak(1, rounds=2) < 1e14
    assert peak(host.thread_limit(), rounds=2) > 1e8
