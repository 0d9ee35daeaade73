"""The schedule machine: invariants under any order of events, and the paper's recurrence on a virtual clock."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts.schedule import POLICIES, LayerSchedule, Read, Release, Run, policy

NAMES = sorted(POLICIES)


@given(
    groups=st.integers(1, 7), banks=st.integers(1, 4), queue=st.integers(1, 3), name=st.sampled_from(NAMES),
    data=st.data(),
)  # fmt: skip
def test_any_order_of_completions_ends_with_every_needed_group_run_once(
    groups: int, banks: int, queue: int, name: str, data: st.DataObject
) -> None:
    needed = sorted(data.draw(st.sets(st.integers(0, groups - 1))))
    schedule = LayerSchedule(groups, banks, queue, policy(name))
    reading: dict[int, int] = {}
    held: dict[int, int] = {}  # bank -> group, from the read's start to the release
    running: list[int] = []
    ran: list[int] = []
    known = False

    def carry_out() -> None:
        for action in schedule.advance():
            match action:
                case Read(group, bank):
                    assert bank not in held and 0 <= bank < banks
                    assert schedule.issued.count(group) == 1
                    assert name == "early" or known
                    assert not known or group in needed
                    reading[group], held[bank] = bank, group
                    assert len(reading) <= queue
                    assert name != "on-demand" or (len(held) == 1 and not running)
                case Run(group, bank):
                    assert known and held[bank] == group and group not in reading and not running
                    running.append(group)
                case Release(group, bank):
                    assert known and group not in needed and held.pop(bank) == group

    carry_out()
    while not schedule.done:
        events = [("read", g) for g in reading] + [("run", g) for g in running] + ([] if known else [("routes", -1)])
        assert events, "deadlock"
        event, group = data.draw(st.sampled_from(events))
        if event == "read":
            del reading[group]
            schedule.read_done(group)
        elif event == "run":
            running.remove(group)
            ran.append(group)
            held.pop(schedule.run_done(group))
        else:
            known = True
            schedule.routes_known(needed)
        carry_out()
    assert ran == needed and not held and not reading
    assert set(schedule.issued) - set(needed) == set(schedule.speculative)
    assert name == "early" or not schedule.speculative


def simulate(
    loads: list[float], runs: list[float], non_expert: float, banks: int, queue: int, name: str
) -> dict[str, list]:
    """The machine on a virtual clock; every group is needed."""
    count = len(loads)
    schedule = LayerSchedule(count, banks, queue, policy(name))
    times: dict[str, list] = {key: [None] * count for key in "adsf"}
    events: list[tuple[float, int, str, int]] = [(non_expert, 0, "routes", -1)]
    now = 0.0
    while True:
        for action in schedule.advance():
            match action:
                case Read(group, _):
                    times["a"][group], times["d"][group] = now, now + loads[group]
                    heapq.heappush(events, (now + loads[group], 1, "read", group))
                case Run(group, _):
                    times["s"][group], times["f"][group] = now, now + runs[group]
                    heapq.heappush(events, (now + runs[group], 2, "run", group))
        if not events:
            assert schedule.done
            return times
        now, _, event, group = heapq.heappop(events)
        if event == "routes":
            schedule.routes_known(range(count))
        elif event == "read":
            schedule.read_done(group)
        else:
            schedule.run_done(group)


A = ([4, 4, 4, 4], [2, 3, 1, 2], 5)


def test_worked_example_a() -> None:
    assert simulate(*A, banks=2, queue=2, name="early") == {
        "a": [0, 0, 7, 10], "d": [4, 4, 11, 14], "s": [5, 7, 11, 14], "f": [7, 10, 12, 16],
    }  # fmt: skip
    assert simulate(*A, banks=3, queue=2, name="early") == {
        "a": [0, 0, 4, 7], "d": [4, 4, 8, 11], "s": [5, 7, 10, 11], "f": [7, 10, 11, 13],
    }  # fmt: skip
    one = simulate(*A, banks=1, queue=1, name="early")
    assert (one["a"], one["d"], one["f"]) == ([0, 7, 14, 19], [4, 11, 18, 23], [7, 14, 19, 25])
    after = simulate(*A, banks=2, queue=2, name="after-routing")
    assert (after["a"], after["f"]) == ([5, 5, 11, 14], [11, 14, 16, 20])


def recurrence(loads: list[int], runs: list[int], non_expert: int, banks: int, queue: int, name: str) -> list[float]:
    """The completion times f_k of system.md section 6, literally."""
    a: list[float] = []
    d: list[float] = []
    f: list[float] = []

    def at(values: list[float], k: int) -> float:
        return values[k] if k >= 0 else 0

    for k in range(len(loads)):
        if name == "on-demand":
            start = max(non_expert, at(f, k - 1))
        else:
            start = max(at(d, k - queue), at(f, k - banks), non_expert if name == "after-routing" else 0)
        a.append(start)
        d.append(start + loads[k])
        f.append(max(d[k], non_expert, at(f, k - 1)) + runs[k])
    return f


@given(
    runs=st.lists(st.integers(1, 9), min_size=1, max_size=8), load=st.integers(1, 9), non_expert=st.integers(0, 12),
    banks=st.integers(1, 5), queue=st.integers(1, 4), name=st.sampled_from(NAMES),
)  # fmt: skip
def test_equal_reads_follow_the_recurrence(
    runs: list[int], load: int, non_expert: int, banks: int, queue: int, name: str
) -> None:
    loads = [load] * len(runs)
    found = simulate(loads, runs, non_expert, banks, min(queue, banks), name)["f"]
    assert found == recurrence(loads, runs, non_expert, banks, min(queue, banks), name)


def test_unneeded_groups_are_skipped_and_early_ones_counted() -> None:
    schedule = LayerSchedule(5, 2, 2, policy("early"))
    assert schedule.advance() == [Read(0, 0), Read(1, 1)]
    schedule.read_done(0)
    schedule.routes_known([1, 4])
    assert schedule.advance() == [Release(0, 0), Read(4, 0)]
    assert schedule.speculative == (0,)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(EStreamError, match="unknown schedule 'eager': choose one of on-demand"):
        policy("eager")
    with pytest.raises(EStreamError, match="at least one bank"):
        LayerSchedule(3, 0, 1, policy("early"))
