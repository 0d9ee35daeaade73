"""The fast host kernels as part of the graph: neither C nor bank changes a bit, and they are near the fp32 kernels."""

from collections.abc import Callable

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts import ExpertShape, RecordClass, compact
from estream_lab.experts.executors import HOST, HOST_PROFILES, Executor, executor, host_bf16, host_int8
from estream_lab.experts.graph import ExpertGraph, GraphCounts
from estream_lab.kernels import host
from tests.experts.test_exact import EXPERTS, FFN, HIDDEN, RECORD, ROUTES, TOKENS, X, filled

Make = Callable[[], Executor]
BOTH = pytest.mark.parametrize("make", [host_bf16, host_int8])


def result(chosen: Executor, capacity: int, bank: int = 0) -> np.ndarray:
    home = np.arange(EXPERTS, dtype=np.int32) + 4 * bank
    graph = ExpertGraph(RECORD, filled(home), chosen.kernel(RECORD, capacity), capacity, TOKENS, GraphCounts())
    y = np.zeros_like(X)
    assert graph.invoke(X, y, compact(ROUTES, home, 4 * bank, 4)) == -(-len(ROUTES) // capacity)
    return y


@BOTH
def test_neither_capacity_nor_bank_changes_a_bit(make: Make) -> None:
    expected = result(make(), 90)
    for capacity in (89, 31, 7, 1):  # R > C: split
        assert result(make(), capacity).tobytes() == expected.tobytes()
    assert result(make(), 90, bank=1).tobytes() == expected.tobytes()


@pytest.mark.parametrize(("make", "error"), [(host_bf16, 0.004), (host_int8, 0.02)])
def test_they_are_off_the_fp32_kernels_by_what_their_activations_cost(make: Make, error: float) -> None:
    fast, plain = result(make(), 90), result(HOST, 90)
    assert 1e-4 < np.linalg.norm(fast - plain) / np.linalg.norm(plain) < error


@BOTH
def test_memory_is_foretold(make: Make) -> None:
    kernel = make().kernel(RECORD, 50)
    assert kernel.nbytes == make().bytes_for(RECORD, 50, host.threads()) > 0


@BOTH
def test_other_layouts_are_refused(make: Make) -> None:
    name = make().numerics_profile
    message = f"{name} reads records of layout q4-32x32, not f32: pack the store with Q4_0 weights, or choose profile"
    for layouts in (("f32",) * 3, ("q4-32x32", "q4-32x32", "f32")):
        record = RecordClass.of(ExpertShape(HIDDEN, FFN, layouts))
        with pytest.raises(EStreamError, match=message):
            make().kernel(record, 8)
        with pytest.raises(EStreamError, match=message):  # before any memory is planned
            make().bytes_for(record, 8, 1)


def test_the_host_has_three_profiles() -> None:
    assert HOST_PROFILES == ("host-f32", "host-bf16", "host-int8")
    assert [executor("host", profile, None).numerics_profile for profile in HOST_PROFILES] == list(HOST_PROFILES)
    assert executor("host", None, None) is HOST
    with pytest.raises(
        EStreamError, match="no numerics profile 'host-bf8': choose host-f32, host-bf16 or host-int8, or the exact"
    ):
        executor("host", "host-bf8", None)
    with pytest.raises(EStreamError, match="no numerics profile 'host-int8': choose one of ieee_fp32"):
        executor("exact", "host-int8", None)
