"""Reads on a virtual clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.simulate import DepthBandwidth, OwnTimes, SharedBandwidth, Storage


def ends(storage: Storage, reads: list[tuple[int, int]]) -> list[int]:
    """When reads of (start, bytes or own time) end; they are given in order of their start."""
    under_way, found, waiting = storage.open(), [0] * len(reads), list(enumerate(reads))
    while waiting or under_way.next_end() is not None:
        end = under_way.next_end()
        if waiting and (end is None or waiting[0][1][0] < end):
            number, (start, amount) = waiting.pop(0)
            under_way.start(number, start, amount, amount)
            continue
        assert end is not None
        for number in under_way.ended(end):
            found[number] = end
    return found


def test_own_times_do_not_see_each_other() -> None:
    assert ends(OwnTimes(), [(0, 10), (5, 3)]) == [10, 8]


def test_a_bandwidth_is_shared_evenly_by_the_reads_under_way() -> None:
    assert ends(SharedBandwidth(1e9), [(0, 10)]) == [10]
    assert ends(SharedBandwidth(1e9), [(0, 10), (0, 10)]) == [20, 20]
    assert ends(SharedBandwidth(1e9), [(0, 10), (5, 10)]) == [15, 20]
    assert ends(SharedBandwidth(2e9), [(0, 10), (20, 10)]) == [5, 25]


def test_latency_takes_time_and_no_bandwidth() -> None:
    assert ends(SharedBandwidth(1e9, latency_ns=4), [(0, 10)]) == [14]
    assert ends(SharedBandwidth(1e9, latency_ns=4), [(0, 10), (6, 10)]) == [18, 24]  # 6 flow alone, 4 + 4 shared


def test_a_lone_read_has_its_own_bandwidth_and_more_than_are_listed_have_the_last() -> None:
    """10 bytes alone take 10 ns; two share 2 bytes/ns; of three the third brings nothing more."""
    storage = DepthBandwidth((1e9, 2e9))
    assert ends(storage, [(0, 10)]) == [10]
    assert ends(storage, [(0, 10), (0, 10)]) == [10, 10]
    assert ends(storage, [(0, 10), (5, 10)]) == [10, 15]  # 5 + 5 as one of two; 5 as one of two, 5 alone
    assert ends(storage, [(0, 10), (0, 10), (0, 10)]) == [15, 15, 15]
    assert ends(DepthBandwidth((1e9, 2e9), latency_ns=4), [(0, 10), (0, 10)]) == [14, 14]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 90)), min_size=1, max_size=5), st.floats(0.05, 7.0))
def test_one_bandwidth_at_every_depth_is_the_shared_one(reads: list[tuple[int, int]], rate: float) -> None:
    reads = sorted(reads)
    assert ends(DepthBandwidth((rate * 1e9,) * 3), reads) == ends(SharedBandwidth(rate * 1e9), reads)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 90)), min_size=1, max_size=6), st.floats(0.05, 7.0))
def test_no_byte_comes_faster_than_the_bandwidth(reads: list[tuple[int, int]], rate: float) -> None:
    reads = sorted(reads)
    found = ends(SharedBandwidth(rate * 1e9), reads)
    for (start, count), end in zip(reads, found, strict=True):
        inside = sum(other for (begin, other), last in zip(reads, found, strict=True) if begin >= start and last <= end)
        assert end >= start + max(1, inside / rate) - 1e-6
        alone = all(
            last <= start or begin >= end for (begin, _), last in zip(reads, found, strict=True) if begin != start
        )
        if alone and [begin for begin, _ in reads].count(start) == 1:
            assert end <= start + count / rate + 1


def test_no_bandwidth_is_refused() -> None:
    with pytest.raises(EStreamError, match="can't share 0 bytes/s"):
        SharedBandwidth(0)
    with pytest.raises(EStreamError, match="after -1 ns"):
        SharedBandwidth(1, -1)
    with pytest.raises(EStreamError, match="can't share 0 bytes/s"):
        DepthBandwidth((0, 1))
    with pytest.raises(EStreamError, match="need a bandwidth"):
        DepthBandwidth(())
    with pytest.raises(EStreamError, match="but 2e\\+09, 1e\\+09 bytes/s fall"):
        DepthBandwidth((2e9, 1e9))
