"""The policies on a virtual clock are the paper's recurrence, where all reads take equally long (section 6)."""

from hypothesis import given
from hypothesis import strategies as st

from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import POLICIES, policy
from estream_lab.simulate import by_hand, recurrence, replay, timetable

NAMES = sorted(POLICIES)


def literally(
    loads: list[int], runs: list[int], non_expert: int, banks: int, queue: int, name: str
) -> tuple[list[int], ...]:
    """a, d, s, f of section 6, written down again: what is compared must not come from one pen."""
    a: list[int] = []
    d: list[int] = []
    s: list[int] = []
    f: list[int] = []

    def at(values: list[int], k: int) -> int:
        return values[k] if k >= 0 else 0

    for k, (load, run) in enumerate(zip(loads, runs, strict=True)):
        match name:
            case "on-demand":
                a.append(max(non_expert, at(f, k - 1)))
            case "after-routing":
                a.append(max(at(d, k - queue), at(f, k - banks), non_expert))
            case "early":
                a.append(max(at(d, k - queue), at(f, k - banks)))
        d.append(a[k] + load)
        s.append(max(d[k], non_expert, at(f, k - 1)))
        f.append(s[k] + run)
    return a, d, s, f


@given(
    runs=st.lists(st.integers(1, 9), min_size=1, max_size=8), load=st.integers(1, 9), non_expert=st.integers(0, 12),
    banks=st.integers(1, 9), queue=st.integers(1, 4), name=st.sampled_from(NAMES),
)  # fmt: skip
def test_equal_reads_follow_the_recurrence(
    runs: list[int], load: int, non_expert: int, banks: int, queue: int, name: str
) -> None:
    loads, queue = [load] * len(runs), min(queue, banks)
    trace = replay(by_hand(loads, runs, non_expert), Policies(policy(name)), banks=banks, queue_depth=queue)
    found = timetable(trace)
    expected = literally(loads, runs, non_expert, banks, queue, name)
    assert (found.a, found.d, found.s, found.f) == tuple(map(tuple, expected))
    assert recurrence(loads, runs, non_expert, banks, queue, name) == found


@given(
    times=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8),
    non_expert=st.integers(0, 12), banks=st.integers(1, 9), name=st.sampled_from(NAMES),
)  # fmt: skip
def test_with_one_read_at_a_time_unequal_reads_follow_it_too(
    times: list[tuple[int, int]], non_expert: int, banks: int, name: str
) -> None:
    loads, runs = map(list, zip(*times, strict=True))
    trace = replay(by_hand(loads, runs, non_expert), Policies(policy(name)), banks=banks, queue_depth=1)
    assert timetable(trace) == recurrence(loads, runs, non_expert, banks, 1, name)
