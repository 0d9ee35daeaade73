"""What each move of the protocol must wait for: one rule, one reason (paper section 4).

Each rule is needed: `tests/experts/test_exploration.py` takes them away one by one and sees what goes wrong.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from estream_lab.experts.protocol import (
    AVAILABLE,
    FILLING,
    IN_USE,
    NONE,
    READY,
    Arrived,
    Begin,
    Completed,
    End,
    Failed,
    Keep,
    Limits,
    Move,
    Publish,
    Read,
    Release,
    Reset,
    Routed,
    Run,
    State,
    Stop,
    evictable,
    first_unread,
    outstanding,
    spent,
)


class Rule(NamedTuple):
    """A name, the kinds of moves that it is about, what it demands, and whether it forbids such a move in a state."""

    name: str
    kinds: tuple[type, ...]
    demand: str
    forbids: Callable[[State, Any, Limits], bool]


Check = Callable[[State, Any, Limits], bool]
_rules: list[Rule] = []


def _rule(name: str, *kinds: type) -> Callable[[Check], Check]:
    """Make a rule of a function that says whether a move is forbidden; its first sentence is what the rule demands."""

    def enter(forbids: Check) -> Check:
        sentence = (forbids.__doc__ or "").split("\n", 1)[0].rstrip(".")
        _rules.append(Rule(name, kinds, sentence[0].lower() + sentence[1:], forbids))
        return forbids

    return enter


@_rule("free-bank", Read)
def _free_bank(state: State, move: Read, limits: Limits) -> bool:
    """A read starts only into an available bank."""
    return state.banks[move.bank].state is not AVAILABLE


@_rule("one-home", Read)
def _one_home(state: State, move: Read, limits: Limits) -> bool:
    """A group is in at most one bank."""
    return any(bank.key == move.key for bank in state.banks)


@_rule("queue-place", Read)
def _queue_place(state: State, move: Read, limits: Limits) -> bool:
    """At most Q reads are outstanding."""
    return outstanding(state) >= limits.queue_depth


@_rule("useful-read", Read)
def _useful_read(state: State, move: Read, limits: Limits) -> bool:
    """Once the routes are known, only groups with work are read."""
    layer, group = move.key
    if layer == NONE or layer not in (state.layer, state.ahead):
        return True
    known = state.to_run if layer == state.layer and state.routed else range(limits.groups[layer])
    return group not in known


@_rule("spare-bank", Read)
def _spare_bank(state: State, move: Read, limits: Limits) -> bool:
    """The last spare bank goes to the first group in visit order that is in none."""
    first = first_unread(state, limits)
    if first is None or move.key == first:
        return False
    return len(state.free) + len(evictable(state, limits)) < 2


@_rule("all-slices", Publish)
def _all_slices(state: State, move: Publish, limits: Limits) -> bool:
    """A group is published only when all of its slices have arrived."""
    return state.banks[move.bank].missing > 0


@_rule("good-data", Publish)
def _good_data(state: State, move: Publish, limits: Limits) -> bool:
    """A group whose read failed is never published."""
    return state.banks[move.bank].failed


@_rule("ready-first", Run)
def _ready_first(state: State, move: Run, limits: Limits) -> bool:
    """Only published groups run."""
    return state.banks[move.bank].state not in (READY, IN_USE)


@_rule("routes-first", Run)
def _routes_first(state: State, move: Run, limits: Limits) -> bool:
    """Nothing runs before the routes are known."""
    return not state.routed


@_rule("visit-order", Run)
def _visit_order(state: State, move: Run, limits: Limits) -> bool:
    """Groups run in visit order."""
    return move.key.group in state.to_run[1:]


@_rule("once", Run)
def _once(state: State, move: Run, limits: Limits) -> bool:
    """Only groups with routes run, and only once."""
    return state.routed and move.key.group not in state.to_run


@_rule("one-runner", Run)
def _one_runner(state: State, move: Run, limits: Limits) -> bool:
    """One group runs at a time."""
    return state.running != NONE


@_rule("last-invocation", Release, Keep)
def _last_invocation(state: State, move: Release | Keep, limits: Limits) -> bool:
    """A bank is given up only after the last invocation on it has completed."""
    return state.running == move.bank


@_rule("needed-stays", Release, Keep)
def _needed_stays(state: State, move: Release | Keep, limits: Limits) -> bool:
    """A group that still has work keeps its bank."""
    bank = state.banks[move.bank]
    if state.stopped:
        return False
    if bank.kept:
        return isinstance(move, Keep) or move.key not in evictable(state, limits)
    return bank.state is READY and not spent(state, move.bank)


@_rule("settle", Release, Keep)
def _settle(state: State, move: Release | Keep, limits: Limits) -> bool:
    """A bank that is being read into is given up only when its read has ended."""
    bank = state.banks[move.bank]
    return bank.state is FILLING and (bank.missing > 0 or not state.stopped)


@_rule("all-run", End)
def _all_run(state: State, move: End, limits: Limits) -> bool:
    """A layer ends only when every group with routes has run."""
    return bool(not state.routed or state.to_run or state.running != NONE)


@_rule("all-released", End, Reset)
def _all_released(state: State, move: End | Reset, limits: Limits) -> bool:
    """A layer, or a stopped run, ends only when its banks are given up."""
    if isinstance(move, Reset):
        return any(bank.state is not AVAILABLE for bank in state.banks)
    return any(bank.key is not None and bank.key.layer == state.layer and not bank.kept for bank in state.banks)


@_rule("stop", Begin, Routed, Read, Publish, Run, Keep, End, Stop)
def _stop(state: State, move: Move, limits: Limits) -> bool:
    """Once stopped, nothing new starts."""
    return state.stopped


@_rule("turn-taking", Begin, Routed, Arrived, Failed, Publish, Completed, Release, Keep, End, Reset)
def _turn_taking(state: State, move: Move, limits: Limits) -> bool:
    """Calls come in their order."""
    match move:
        case Begin(layer, _):
            strangers = (b for b in state.banks if b.key is not None and b.key.layer != layer and not b.kept)
            return state.layer != NONE or any(strangers)
        case Routed(layer, _):
            return state.layer != layer or state.routed
        case End(layer):
            return state.layer != layer
        case Arrived(bank) | Failed(bank):
            return state.banks[bank].state is not FILLING or state.banks[bank].missing < 1
        case Completed(bank):
            return state.running != bank
        case Publish(_, bank):
            return state.banks[bank].state is not FILLING
        case Release(_, bank) | Keep(_, bank):
            return state.banks[bank].state is AVAILABLE
        case Reset():
            return not state.stopped
    return False


RULES = tuple(_rules)
"""Every rule, in the order in which they are asked."""

_RULES_OF: dict[type, tuple[Rule, ...]] = {
    kind: tuple(rule for rule in RULES if kind in rule.kinds) for kind in {k for rule in RULES for k in rule.kinds}
}


def refusal(state: State, move: Move, limits: Limits, without: frozenset[str] = frozenset()) -> Rule | None:
    """The first rule, of those not in ``without``, that forbids ``move`` in ``state``; None where it is allowed."""
    for rule in _RULES_OF[type(move)]:
        if rule.name not in without and rule.forbids(state, move, limits):
            return rule
    return None
