"""Decisions: worked examples of who is read, run, kept and given up when; policies that break a rule."""

from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies, PolicyError, advance, tell
from estream_lab.experts.protocol import (
    NONE,
    Arrived,
    Begin,
    Completed,
    End,
    Failed,
    GroupKey,
    Keep,
    Limits,
    Move,
    ProtocolError,
    Publish,
    Read,
    Release,
    Reset,
    Routed,
    Run,
    State,
    Stop,
    at_rest,
)
from estream_lab.experts.retention import KeepFirst, KeepLatest, Retention
from estream_lab.experts.schedule import POLICIES, CarryOver, Early, Schedule, View, policy

LIMITS = Limits(2, (5, 3))


class Follow:
    """A pipeline by hand: tell it what happened, get what it does."""

    def __init__(self, banks: int, policies: Policies, limits: Limits = LIMITS) -> None:
        self.state: State = at_rest(banks)
        self.policies, self.limits = policies, limits

    def __call__(self, move: Move) -> list[Move]:
        self.state = tell(self.state, move, self.limits)
        self.state, moves = advance(self.state, self.limits, self.policies)
        return moves


def key(group: int, layer: int = 0) -> GroupKey:
    return GroupKey(layer, group)


def test_early_reads_in_offline_order_and_skips_what_has_no_routes() -> None:
    follow = Follow(2, Policies(Early()))
    assert follow(Begin(0)) == [Read(key(0), 0), Read(key(1), 1)]
    assert follow(Arrived(0)) == [Publish(key(0), 0)]
    assert follow(Routed(0, (1, 4))) == [Release(key(0), 0), Read(key(4), 0)]
    assert follow(Arrived(1)) == [Publish(key(1), 1), Run(key(1), 1)]
    assert follow(Completed(1)) == [Release(key(1), 1)]
    assert follow(Arrived(0)) == [Publish(key(4), 0), Run(key(4), 0)]
    assert follow(Completed(0)) == [Release(key(4), 0)]
    assert follow(End(0)) == []


def test_after_routing_waits_for_the_routes() -> None:
    follow = Follow(2, Policies(POLICIES["after-routing"]))
    assert follow(Begin(0)) == []
    assert follow(Routed(0, (1, 3, 4))) == [Read(key(1), 0), Read(key(3), 1)]


def test_on_demand_reads_only_what_the_executor_stands_before() -> None:
    follow = Follow(3, Policies(POLICIES["on-demand"]))
    assert follow(Begin(0)) == []
    assert follow(Routed(0, (1, 3))) == [Read(key(1), 0)]
    assert follow(Arrived(0)) == [Publish(key(1), 0), Run(key(1), 0)]
    assert follow(Completed(0)) == [Release(key(1), 0), Read(key(3), 1)]


def test_carried_over_fills_the_next_layers_first_groups() -> None:
    follow = Follow(2, Policies(CarryOver()))
    follow(Begin(0, 1))
    follow(Arrived(0))
    follow(Arrived(1))
    assert follow(Routed(0, (0, 1))) == [Run(key(0), 0)]
    assert follow(Completed(0)) == [Release(key(0), 0), Run(key(1), 1), Read(key(0, 1), 0)]
    assert follow(Completed(1)) == [Release(key(1), 1), Read(key(1, 1), 1)]
    assert follow(End(0)) == []
    assert follow(Begin(1)) == []  # both banks are filling already


def test_carried_over_goes_no_further_than_the_last_layer() -> None:
    follow = Follow(3, Policies(CarryOver()))
    follow(Begin(1, NONE))
    for bank in (0, 1, 2):
        follow(Arrived(bank))
    follow(Routed(1, (0,)))
    assert follow(Completed(0)) == [Release(key(0, 1), 0)]


def test_kept_groups_are_not_read_again() -> None:
    follow = Follow(3, Policies(Early(), KeepFirst(1)))
    follow(Begin(0))
    follow(Arrived(0))
    follow(Arrived(1))
    follow(Arrived(2))
    assert follow(Routed(0, (0, 1, 2))) == [Run(key(0), 0)]
    assert follow(Completed(0)) == [Keep(key(0), 0), Run(key(1), 1)]
    follow(Completed(1))
    follow(Completed(2))
    follow(End(0))
    assert follow(Begin(0)) == [Read(key(1), 1), Read(key(2), 2)]
    assert follow(Routed(0, (0,))) == [Run(key(0), 0)]
    assert follow(Completed(0)) == [Keep(key(0), 0)]


def test_the_latest_give_way_to_what_is_wanted_sooner() -> None:
    follow = Follow(1, Policies(Early(), KeepLatest()))
    follow(Begin(0))
    follow(Arrived(0))
    follow(Routed(0, (0,)))
    assert follow(Completed(0)) == [Keep(key(0), 0)]
    follow(End(0))
    assert follow(Begin(1)) == [Release(key(0), 0), Read(key(0, 1), 0)]


class Wrong(Schedule):
    """Names what it is told to."""

    name = "wrong"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def next_read(self, view: View) -> GroupKey | None:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (key(9), "asked to read group 9 of layer 0 .* only groups with work"),
        (key(0, 1), "asked to read group 0 of layer 1 .* only groups with work"),
        (key(2), "2 of 2 banks are free"),
        ((0, 0), "must name a GroupKey or None, not"),
    ],
)
def test_a_wrong_schedule_is_refused_with_what_it_asked_for(answer: object, sentence: str) -> None:
    follow = Follow(2, Policies(Wrong(answer)))
    if answer == key(2):  # the first time it is lawful, the second time it is in a bank already
        sentence = "asked to read group 2 of layer 0 while .* 1 of 2 banks are free: a group is in at most one bank"
    with pytest.raises(PolicyError, match=sentence):
        follow(Begin(0))


def test_a_schedule_that_starves_the_executor_is_told_at_once() -> None:
    follow = Follow(2, Policies(Wrong(None)))
    assert follow(Begin(0)) == []
    with pytest.raises(PolicyError, match="'wrong' starves the executor: it waits for group 3 of layer 0"):
        follow(Routed(0, (3,)))


def test_calls_out_of_turn_are_refused() -> None:
    state = at_rest(1)
    with pytest.raises(ProtocolError, match="breaks the rule 'turn-taking'"):
        tell(state, Routed(0, ()), LIMITS)
    with pytest.raises(ProtocolError, match="breaks the rule 'turn-taking'"):
        tell(state, Arrived(0), LIMITS)
    with pytest.raises(ProtocolError, match="breaks the rule 'all-run'"):
        tell(tell(state, Begin(0), LIMITS), End(0), LIMITS)


class Sooner(Early):
    """Says no name."""


class Everything(Retention):
    """Says no name."""


def test_moves_of_different_kinds_are_never_the_same() -> None:
    alike: list[list[Move]] = [
        [Arrived(0), Failed(0), Completed(0), End(0)],
        [Publish(key(0), 0), Release(key(0), 0), Keep(key(0), 0)],
        [Read(key(0), 0), Run(key(0), 0)],
        [Stop(), Reset()],
    ]
    for moves in alike:
        assert len({*moves}) == len(moves)
        assert all(one != other for at, one in enumerate(moves) for other in moves[at + 1 :])
    assert Arrived(0) == Arrived(0) and Arrived(0) != Arrived(1)


def test_names_of_schedules() -> None:
    assert policy("early") is POLICIES["early"] and isinstance(policy("early", carry_over=True), CarryOver)
    carried = CarryOver()
    assert policy(carried, carry_over=True) is carried
    assert (Sooner().name, Everything().name, CarryOver().name) == ("Sooner", "Everything", "early")
    with pytest.raises(EStreamError, match="can be carried over, not 'Sooner'"):
        policy(Sooner(), carry_over=True)
    own = Wrong(None)
    assert policy(own) is own
    with pytest.raises(EStreamError, match="unknown schedule 'eager': choose one of on-demand"):
        policy("eager")
    with pytest.raises(EStreamError, match="only the early schedule can be carried over, not 'after-routing'"):
        policy("after-routing", carry_over=True)
    with pytest.raises(EStreamError, match="at least one bank must be kept"):
        KeepFirst(0)


def test_what_is_no_policy_is_refused_before_it_is_asked() -> None:
    wrong: Any
    for wrong in (Early, None, lambda view: None):
        with pytest.raises(EStreamError, match="early, or an object of a class derived from Schedule, not"):
            policy(wrong)
        with pytest.raises(EStreamError, match="a schedule is an object of a class derived from Schedule, not"):
            Policies(wrong)
    wrong = KeepLatest
    with pytest.raises(EStreamError, match="a retention is an object of a class derived from Retention, not <class"):
        Policies(Early(), wrong)
