"""The fp32 peak is made of the multiply-adds that it counts; the bandwidth is that of bytes which are all read."""

import re

import numpy as np
import pytest

from estream_lab.kernels.host import peak, thread_limit
from estream_lab.kernels.host.peak import CHAINS, MULTIPLY_ADDS, READ_BYTES, STEPS, emit_turns, fma_peak, read_bandwidth
from estream_lab.kernels.host.vector_ir import LANES
from tests.kernels.int8.test_variants import ARM, X86, assembly_of


@pytest.mark.parametrize(
    ("lanes", "triple", "processor", "instruction"),
    [
        (8, X86, "znver3", "vfmadd\\w+ps"),
        (16, X86, "sapphirerapids", "vfmadd\\w+ps"),
        (8, ARM, "neoverse-n1", "fmla"),
    ],
)
def test_a_turn_has_the_instructions_that_are_counted(
    monkeypatch: pytest.MonkeyPatch, lanes: int, triple: str, processor: str, instruction: str
) -> None:
    monkeypatch.setattr(peak, "LANES", lanes)
    code = assembly_of(emit_turns, 2, triple, processor)
    vectors = 2 if triple == ARM else 1  # of four lanes each
    assert len(re.findall(rf"\b{instruction}\b", code)) == CHAINS * STEPS * vectors
    assert not re.search(r"mm\d+, -?\d*\(%rsp\)|q\d+, \[sp", code)  # nothing is kept on the stack
    assert CHAINS * STEPS * LANES == MULTIPLY_ADDS


def test_turns_compute_what_numpy_does() -> None:
    numbers = np.zeros((2 + CHAINS, LANES), np.float32)
    numbers[0], numbers[1] = 1.5, np.arange(LANES)
    taken = np.zeros(1, np.int64)
    peak._take_turns(2, numbers.reshape(-1), taken.ctypes.data, 1)
    expected = numbers[0].copy()
    for _ in range(2 * STEPS):
        expected = (expected.astype(np.float64) + numbers[0] * numbers[1]).astype(np.float32)
    assert np.array_equal(numbers[2:], np.broadcast_to(expected, (CHAINS, LANES)))
    assert taken[0] == 2  # shares, and the attempt to take one more


def test_every_piece_is_added_up_as_numpy_does() -> None:
    words = np.random.default_rng(0).integers(-(2**40), 2**40, 3 * peak._PIECE)
    sums, taken = np.zeros(2, np.int64), np.zeros(1, np.int64)
    peak._sum_pieces(words, sums, 1, taken.ctypes.data, 3)
    assert sums.tolist() == [0, words.sum()]


def test_both_are_rates() -> None:
    for threads in {1, thread_limit()}:
        assert 1e8 < fma_peak(threads, rounds=2) < 1e14
        assert 1e8 < read_bandwidth(threads, 8 << 20, rounds=2) < 1e13
    assert READ_BYTES % (8 * peak._PIECE) == 0
