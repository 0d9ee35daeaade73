"""A bank's routes before they run: whose projection is refused, and what looking at it takes."""

import tracemalloc

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.kernels.exact.bank import PROJECTIONS, OperandError, Planes, Records, check_activations, checking_bytes
from estream_lab.kernels.layout import projection_bytes
from tests.kernels.exact.test_census import Bank


def planes(bank: Bank) -> Planes:
    gate, up, down = bank.planes
    return Planes.of(bank.arena, (gate, up, down), bank.hidden, bank.ffn, len(gate))


@pytest.mark.parametrize("j", range(3))
@pytest.mark.parametrize("scale", [8192.0, -65504.0, np.inf, np.nan])
def test_a_scale_that_overflows_is_one_sentence_that_names_slot_and_projection(j: int, scale: float) -> None:
    bank = Bank(96, 64, 3, np.random.default_rng(1))
    at = int(bank.planes[j, 1]) + projection_bytes("q4-32x32", 96, 64) - 2  # the last column's
    bank.arena[at : at + 2] = np.array([scale], np.float16).view(np.uint8)
    with pytest.raises(OperandError, match=f"^the {PROJECTIONS[j]} projection in slot 1 of a bank has a scale of 8192"):
        planes(bank).of_slot(1)
    assert [len(plane) for plane in planes(bank).of_slot(0)] == [projection_bytes("q4-32x32", 96, 64)] * 3
    planes(bank).of_slot(2)


def test_every_smaller_scale_is_taken() -> None:
    bank = Bank(64, 32, 1, np.random.default_rng(2))
    at = int(bank.planes[1, 0]) + 512
    for scale in (8188.0, -8188.0, 2**-24, -(2**-24), 0.0, -0.0):
        bank.arena[at : at + 2] = np.array([scale], np.float16).view(np.uint8)
        planes(bank).of_slot(0)


def test_the_errors_of_numbers_are_the_users_and_those_of_shapes_are_not() -> None:
    one = (np.array([0, 1]), np.zeros(1, np.int32))
    with pytest.raises(EStreamError, match="a record's weight is not finite"):
        Records.of(*one, np.array([np.inf], np.float32), 1, 1)
    with pytest.raises(EStreamError, match="activations that are not finite"):
        check_activations(np.array([[0, np.nan]], np.float32))
    with pytest.raises(ValueError, match="bytes in a row") as refused:
        Planes.of(np.zeros(4, np.int8), (one[0], one[0], one[0]), 64, 32, 2)
    assert not isinstance(refused.value, EStreamError)


def test_records_of_a_slot() -> None:
    records = Records.of(np.array([0, 2, 2, 3]), np.array([4, 0, 1], np.int32), np.array([1, 2, 3], np.float32), 5, 3)
    assert records.slots == [0, 2]
    assert [part.tolist() for part in records.of_slot(0)] == [[4, 0], [1, 2]]
    assert [part.tolist() for part in records.of_slot(2)] == [[1], [3]]


@pytest.mark.parametrize(("hidden", "ffn"), [(512, 256), (256, 1024)])
def test_looking_at_scales_takes_what_is_said(hidden: int, ffn: int) -> None:
    found = planes(Bank(hidden, ffn, 1, np.random.default_rng(3)))
    found.of_slot(0)
    tracemalloc.start()
    try:
        found.of_slot(0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    said = checking_bytes(hidden, ffn)
    assert 0.9 * said < peak < said + 4096
