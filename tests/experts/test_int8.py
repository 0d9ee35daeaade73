"""The int8 kernel as part of the graph: neither C nor bank changes a bit, and it is near the fp32 kernels."""

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts import ExpertShape, RecordClass, compact
from estream_lab.experts.executors import HOST, HOST_PROFILES, Executor, executor, host_int8
from estream_lab.experts.graph import ExpertGraph, GraphCounts
from estream_lab.kernels import host
from tests.experts.test_exact import EXPERTS, FFN, HIDDEN, RECORD, ROUTES, TOKENS, X, filled


def result(chosen: Executor, capacity: int, bank: int = 0) -> np.ndarray:
    home = np.arange(EXPERTS, dtype=np.int32) + 4 * bank
    graph = ExpertGraph(RECORD, filled(home), chosen.kernel(RECORD, capacity), capacity, TOKENS, GraphCounts())
    y = np.zeros_like(X)
    assert graph.invoke(X, y, compact(ROUTES, home, 4 * bank, 4)) == -(-len(ROUTES) // capacity)
    return y


def test_neither_capacity_nor_bank_changes_a_bit() -> None:
    expected = result(host_int8(), 90)
    for capacity in (89, 31, 7, 1):  # R > C: split
        assert result(host_int8(), capacity).tobytes() == expected.tobytes()
    assert result(host_int8(), 90, bank=1).tobytes() == expected.tobytes()


def test_it_is_off_the_fp32_kernels_by_what_int8_costs() -> None:
    fast, plain = result(host_int8(), 90), result(HOST, 90)
    assert 1e-4 < np.linalg.norm(fast - plain) / np.linalg.norm(plain) < 0.02


def test_memory_is_foretold() -> None:
    kernel = host_int8().kernel(RECORD, 50)
    assert kernel.nbytes == host_int8().bytes_for(RECORD, 50, host.threads()) > 0


def test_other_layouts_are_refused() -> None:
    message = "host-int8 reads records of layout q4-32x32, not f32: pack the store with Q4_0 weights"
    for layouts in (("f32",) * 3, ("q4-32x32", "q4-32x32", "f32")):
        record = RecordClass.of(ExpertShape(HIDDEN, FFN, layouts))
        with pytest.raises(EStreamError, match=message):
            host_int8().kernel(record, 8)
        with pytest.raises(EStreamError, match=message):  # before any memory is planned
            host_int8().bytes_for(record, 8, 1)


def test_the_host_has_two_profiles() -> None:
    assert [executor("host", profile, None).numerics_profile for profile in HOST_PROFILES] == ["host-f32", "host-int8"]
    assert executor("host", None, None) is HOST
    with pytest.raises(
        EStreamError, match="no numerics profile 'host-bf8': choose host-f32 or host-int8, or the exact"
    ):
        executor("host", "host-bf8", None)
    with pytest.raises(EStreamError, match="no numerics profile 'host-int8': choose one of ieee_fp32"):
        executor("exact", "host-int8", None)
