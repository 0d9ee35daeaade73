"""The protocol explored to its last state: with its rules nothing goes wrong, without any of them something does."""

from dataclasses import replace

import pytest

from estream_lab.experts import exploration
from estream_lab.experts.cases import CASES
from estream_lab.experts.decide import Policies, decide
from estream_lab.experts.exploration import Setting, endless, explore, without
from estream_lab.experts.hazards import HazardChecker
from estream_lab.experts.protocol import (
    Begin,
    End,
    GroupKey,
    Limits,
    Move,
    ProtocolError,
    Publish,
    Read,
    Release,
    Run,
    State,
    apply,
    at_rest,
)
from estream_lab.experts.retention import KeepFirst, KeepLatest, Retention
from estream_lab.experts.rules import RULES, refusal
from estream_lab.experts.schedule import AfterRouting, CarryOver, Early, OnDemand, Schedule, View

ANY_POLICY = [
    Setting(3, 2, 1, 1, invocations=2, stop=True, fail=True),
    Setting(5, 2, 2, 1, stop=True),
    Setting(5, 2, 2, 2, fail=True, invocations=2),
    Setting(7, 2, 1, 1, stop=True, fail=True),  # four refills of one bank
    Setting(3, 2, 2, 2, passes=(0, 1), ahead=True, stop=True),
    Setting(3, 2, 2, 2, passes=(0, 1, 0), keep=True),
    Setting(3, 2, 2, 2, passes=(0, 1), ahead=True, keep=True, fail=True),
    Setting(3, 1, 3, 2),
    Setting(3, 2, 2, 2, stop=True, fail=True, faults=2),  # reads that fail while a stopped run settles
]


class LastFirst(Schedule):
    """Reads the last group first as long as banks to spare allow it: not a good idea, but a lawful one."""

    name = "last first"

    def next_read(self, view: View) -> GroupKey | None:
        line = (*view.unread, *view.ahead)
        spare = view.free + len(view.evictable)
        return (line[-1] if spare > 1 else line[0]) if line else None


POLICIES = [
    Policies(OnDemand()),
    Policies(AfterRouting()),
    Policies(Early()),
    Policies(CarryOver()),
    Policies(Early(), KeepFirst(1)),
    Policies(CarryOver(), KeepLatest()),
    Policies(LastFirst(), KeepLatest()),
]


@pytest.mark.parametrize("setting", ANY_POLICY, ids=range(len(ANY_POLICY)))
def test_no_policy_that_the_rules_allow_can_do_harm_or_hang(setting: Setting) -> None:
    found = explore(setting, keep_edges=True)
    assert found.trouble == {}
    assert found.ends > 0 and found.transitions == len(found.edges)
    assert endless(found) == 0


@pytest.mark.parametrize(
    "policies", POLICIES, ids=lambda p: f"{type(p.schedule).__name__}-{type(p.retention).__name__}"
)
@pytest.mark.parametrize("banks", [2, 3])
def test_the_policies_reach_the_end_from_every_state(policies: Policies, banks: int) -> None:
    setting = Setting(3, 1, banks, 2, passes=(0, 1, 0), policies=policies, ahead=True, stop=banks == 2)
    setting = replace(setting, needed=((), (1,), (0, 2), (0, 1, 2)))
    found = explore(setting, keep_edges=True)
    assert found.trouble == {}
    assert found.ends > 0
    assert endless(found) == 0


def test_a_bank_is_refilled_more_than_three_times() -> None:
    found = explore(Setting(7, 2, 1, 1, needed=((0, 1, 2, 3),)))
    longest = max((found.way(state) for state in range(found.states)), key=len)
    assert [move.bank for move in longest if isinstance(move, Read)] == [0, 0, 0, 0]


WITHOUT = {
    "free-bank": "double owner",
    "one-home": "double home",
    "queue-place": "queue overrun",
    "useful-read": "useless read",
    "spare-bank": "deadlock",
    "all-slices": "early publish",
    "good-data": "bad data",
    "ready-first": "early publish",
    "routes-first": "before routing",
    "visit-order": "out of order",
    "once": "no routes",
    "one-runner": "two at once",
    "last-invocation": "early reuse",
    "needed-stays": "reads ahead",
    "settle": "left behind",
    "all-run": "never run",
    "all-released": "left behind",
    "stop": "start after the stop",
    "turn-taking": "not ended",
}


def test_every_rule_has_its_case() -> None:
    assert set(WITHOUT) == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", WITHOUT)
def test_each_rule_is_needed(rule: str) -> None:
    setting = CASES[rule]
    trouble = without(setting, rule)
    assert trouble is not None and trouble.kind == WITHOUT[rule]
    # The way there is lawful but for the rule, and the checker sees nothing before its last move.
    state, checker = at_rest(setting.banks), HazardChecker(setting.banks, setting.queue_depth)
    broken = set()
    for move in trouble.moves:
        assert not checker.hazards
        forbidden = refusal(state, move, setting.limits)
        broken |= {forbidden.name} if forbidden else set()
        state = apply(state, move)
        checker.observe(move)
    assert broken == {rule}


def test_a_way_is_told_move_by_move() -> None:
    trouble = without(Setting(2, 2, 1, 1, stop=True), "settle")
    assert trouble is not None
    assert [type(move).__name__ for move in trouble.moves] == ["Begin", "Read", "Release", "Read"]
    read = "a read of group 0 of layer 0 into bank 0"
    assert str(trouble.hazard).startswith(f"double owner: {read} (at 4) after {read} (at 2)")


class Greedy(Schedule):
    """Takes every bank for the last groups."""

    name = "greedy"

    def next_read(self, view: View) -> GroupKey | None:
        return view.unread[-1] if view.unread else None


class Idle(Schedule):
    """Never reads."""

    name = "idle"

    def next_read(self, view: View) -> GroupKey | None:
        return None


class Hoarder(Retention):
    """Gives up what it must not."""

    name = "hoarder"

    def keep(self, view: View, key: GroupKey) -> bool:
        return True

    def victim(self, view: View) -> GroupKey | None:
        return view.unread[0]


@pytest.mark.parametrize(
    ("policies", "sentence"),
    [
        (
            Policies(Greedy()),
            "'greedy' asked to read group 1 of layer 0 while group 0 of layer 0 is in no bank and",
        ),
        (Policies(Idle()), "'idle' starves the executor: it waits for group 0 of layer 0"),
        (Policies(Early(), Hoarder()), "'hoarder' asked to give up"),
    ],
)
def test_a_wrong_policy_is_told_apart_from_a_hazard(policies: Policies, sentence: str) -> None:
    found = explore(Setting(5, 2, 2, 2, passes=(0, 1), policies=policies))
    assert set(found.trouble) == {"policy error"}
    assert sentence in found.trouble["policy error"].hazard.why


def test_every_move_of_an_end_is_accounted_for() -> None:
    """What was read is run or given up; nothing is left in a bank."""
    found = explore(Setting(5, 2, 2, 2, policies=Policies(Early()), needed=((0, 2),)))
    way = max((found.way(state) for state in range(found.states)), key=len)
    reads = {move.key for move in way if isinstance(move, Read)}
    assert isinstance(way[0], Begin) and isinstance(way[-1], End)
    assert reads == {move.key for move in way if isinstance(move, Release)}
    assert {move.key for move in way if isinstance(move, Run)} <= reads


def test_a_decision_against_the_rules_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where decisions are carried out nobody asks the rules again: the exploration must."""

    def hasty(state: State, limits: Limits, policies: Policies) -> Move | None:
        waiting = [at for at, bank in enumerate(state.banks) if bank.key is not None and bank.missing]
        return Publish(state.banks[waiting[0]].key, waiting[0]) if waiting else decide(state, limits, policies)  # type: ignore[arg-type]

    monkeypatch.setattr(exploration, "decide", hasty)
    with pytest.raises(ProtocolError, match="was decided against the rule 'all-slices'"):
        explore(Setting(3, 1, 2, 1, policies=Policies(Early())))
