"""What each move of the protocol must wait for: one rule, one reason (paper section 4).

Each rule is needed: `tests/experts/test_exploration.py` takes them away one by one and sees what goes wrong.
"""

from collections.abc import Callable
from typing import NamedTuple

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
    held,
    outstanding,
    spent,
    unread,
    unread_ahead,
)


class Rule(NamedTuple):
    """A name, what it demands, and whether it forbids a move in a state."""

    name: str
    demand: str
    forbids: Callable[[State, Move, Limits], bool]


def _free_bank(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Read) and state.banks[move.bank].state is not AVAILABLE


def _one_home(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Read) and move.key in held(state)


def _queue_place(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Read) and outstanding(state) >= limits.queue_depth


def _useful_read(state: State, move: Move, limits: Limits) -> bool:
    if not isinstance(move, Read):
        return False
    if move.key.layer == state.layer != NONE:
        known = state.to_run if state.routed else range(limits.groups[state.layer])
        return move.key.group not in known
    return move.key.layer != state.ahead or move.key.layer == NONE or move.key not in unread_ahead(state, limits)


def _spare_bank(state: State, move: Move, limits: Limits) -> bool:
    if not isinstance(move, Read):
        return False
    line = unread(state, limits) + unread_ahead(state, limits)
    spare = len(state.free) + len(evictable(state, limits))
    return bool(line) and move.key != line[0] and spare < 2


def _all_slices(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Publish) and state.banks[move.bank].missing > 0 and not state.banks[move.bank].failed


def _good_data(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Publish) and state.banks[move.bank].failed


def _ready_first(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Run) and state.banks[move.bank].state not in (READY, IN_USE)


def _routes_first(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Run) and not state.routed


def _visit_order(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Run) and move.key.group in state.to_run[1:]


def _once(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Run) and state.routed and move.key.group not in state.to_run


def _one_runner(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Run) and state.running != NONE


def _last_invocation(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, Release | Keep) and state.running == move.bank


def _needed_stays(state: State, move: Move, limits: Limits) -> bool:
    if not isinstance(move, Release | Keep) or state.stopped:
        return False
    bank = state.banks[move.bank]
    if bank.kept:
        return isinstance(move, Keep) or move.key not in evictable(state, limits)
    return bank.state is READY and not spent(state, move.bank)


def _settle(state: State, move: Move, limits: Limits) -> bool:
    if not isinstance(move, Release | Keep):
        return False
    bank = state.banks[move.bank]
    return bank.state is FILLING and (bank.missing > 0 or not state.stopped)


def _all_run(state: State, move: Move, limits: Limits) -> bool:
    return isinstance(move, End) and bool(not state.routed or state.to_run or state.running != NONE)


def _all_released(state: State, move: Move, limits: Limits) -> bool:
    if isinstance(move, Reset):
        return any(bank.state is not AVAILABLE for bank in state.banks)
    ours = (bank for bank in state.banks if bank.key is not None and bank.key.layer == state.layer)
    return isinstance(move, End) and not all(bank.kept for bank in ours)


def _stop(state: State, move: Move, limits: Limits) -> bool:
    return state.stopped and isinstance(move, Begin | Routed | Read | Publish | Run | Keep | End | Stop)


def _turn_taking(state: State, move: Move, limits: Limits) -> bool:
    """Calls out of turn: no policy can cause them."""
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


RULES = (
    Rule("free-bank", "a read starts only into an available bank", _free_bank),
    Rule("one-home", "a group is in at most one bank", _one_home),
    Rule("queue-place", "at most Q reads are outstanding", _queue_place),
    Rule("useful-read", "once the routes are known, only groups with work are read", _useful_read),
    Rule("spare-bank", "the last spare bank goes to the first group in visit order that is in none", _spare_bank),
    Rule("all-slices", "a group is published only when all of its slices have arrived", _all_slices),
    Rule("good-data", "a group whose read failed is never published", _good_data),
    Rule("ready-first", "only published groups run", _ready_first),
    Rule("routes-first", "nothing runs before the routes are known", _routes_first),
    Rule("visit-order", "groups run in visit order", _visit_order),
    Rule("once", "only groups with routes run, and only once", _once),
    Rule("one-runner", "one group runs at a time", _one_runner),
    Rule("last-invocation", "a bank is given up only after the last invocation on it has completed", _last_invocation),
    Rule("needed-stays", "a group that still has work keeps its bank", _needed_stays),
    Rule("settle", "a bank that is being read into is given up only when its read has ended", _settle),
    Rule("all-run", "a layer ends only when every group with routes has run", _all_run),
    Rule("all-released", "a layer, or a stopped run, ends only when its banks are given up", _all_released),
    Rule("stop", "once stopped, nothing new starts", _stop),
    Rule("turn-taking", "calls come in their order", _turn_taking),
)


def refusal(state: State, move: Move, limits: Limits, without: frozenset[str] = frozenset()) -> Rule | None:
    """The first rule, of those not in ``without``, that forbids ``move`` in ``state``; None where it is allowed."""
    for rule in RULES:
        if rule.forbids(state, move, limits) and rule.name not in without:
            return rule
    return None
