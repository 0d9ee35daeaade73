"""What a pipeline does next: the rules and the policies together, still without clock and I/O.

A lane, a simulator or an exploration tells what happened (`tell`) and carries out what `advance` returns.
"""

from dataclasses import dataclass, field

from estream_lab.errors import EStreamError
from estream_lab.experts.protocol import (
    FILLING,
    NONE,
    READY,
    GroupKey,
    Keep,
    Limits,
    Move,
    ProtocolError,
    Publish,
    Read,
    Release,
    Run,
    State,
    Stop,
    apply,
    held,
    outstanding,
    spent,
)
from estream_lab.experts.retention import Retention
from estream_lab.experts.rules import refusal
from estream_lab.experts.schedule import Schedule, View


@dataclass(frozen=True)
class Policies:
    """What a researcher may change: when to read what, and what to keep.

    Raises:
        EStreamError: something else than objects of classes derived from `Schedule` and `Retention`.
    """

    schedule: Schedule
    retention: Retention = field(default_factory=Retention)

    def __post_init__(self) -> None:
        for given, kind in ((self.schedule, Schedule), (self.retention, Retention)):
            if not isinstance(given, kind):
                raise EStreamError(
                    f"a {kind.__name__.lower()} is an object of a class derived from {kind.__name__}, not {given}"
                )


class PolicyError(ProtocolError):
    """A policy asked for what a rule forbids, or for nothing where nothing else can happen."""


def tell(state: State, move: Move, limits: Limits) -> State:
    """The state after something happened.

    Raises:
        ProtocolError: it may not happen in this state.
    """
    rule = refusal(state, move, limits)
    if rule is not None:
        raise ProtocolError(f"{move} breaks the rule '{rule.name}': {rule.demand}")
    return apply(state, move)


def advance(state: State, limits: Limits, policies: Policies) -> tuple[State, list[Move]]:
    """Everything that is to be done now, in order, and the state afterwards.

    Raises:
        PolicyError: a policy broke a rule, or starves the executor.
    """
    moves: list[Move] = []
    while (move := decide(state, limits, policies)) is not None:
        state = apply(state, move)  # allowed: the exploration holds every decision to the rules
        moves.append(move)
    return state, moves


def decide(state: State, limits: Limits, policies: Policies) -> Move | None:
    """The next thing to do: stop, publish, give up or keep, run, read; None where there is nothing.

    Raises:
        PolicyError: a policy broke a rule, or starves the executor.
    """
    if state.stopped:
        return None
    wanted = GroupKey(state.layer, state.to_run[0]) if state.to_run and state.running == NONE else None
    ready = NONE
    for at, bank in enumerate(state.banks):
        if bank.key is None:
            continue
        if bank.failed:
            return Stop()
        if bank.state is FILLING:
            if not bank.missing:
                return Publish(bank.key, at)
        elif spent(state, at):
            if state.running != at:
                keep = policies.retention.keep(View(state, limits), bank.key)
                return Keep(bank.key, at) if keep else Release(bank.key, at)
        elif bank.key == wanted and bank.state is READY:
            ready = at
    if wanted is not None and ready != NONE:
        return Run(wanted, ready)
    read = _read(state, limits, policies)
    if read is None and _starving(state):
        raise PolicyError(
            f"schedule '{policies.schedule.name}' starves the executor: it waits for "
            f"{GroupKey(state.layer, state.to_run[0])}, no read is under way, and none is started"
        )
    return read


def _starving(state: State) -> bool:
    """The executor waits for a group, and nothing is under way that could bring it."""
    return bool(state.to_run) and state.running == NONE and not outstanding(state)


def _read(state: State, limits: Limits, policies: Policies) -> Move | None:
    """The next read, or the release of a kept group that makes room for it."""
    if state.layer == NONE or outstanding(state) >= limits.queue_depth:
        return None
    view = View(state, limits)
    if not (view.free or view.evictable):
        return None
    key = policies.schedule.next_read(view)
    if key is None:
        return None
    if not isinstance(key, GroupKey):
        raise PolicyError(f"schedule '{policies.schedule.name}' must name a GroupKey or None, not {key!r}")
    bank = state.free[0] if state.free else NONE
    read = Read(key, bank)
    rule = refusal(state, read, limits, frozenset() if state.free else frozenset({"free-bank"}))
    if rule is not None:
        raise PolicyError(
            f"schedule '{policies.schedule.name}' asked to read {key} while {_standing(view)}: {rule.demand}"
        )
    return read if state.free else _make_room(state, view, policies)


def _make_room(state: State, view: View, policies: Policies) -> Move | None:
    victim = policies.retention.victim(view)
    if victim is None and _starving(state):
        victim = view.evictable[-1]  # nothing else will ever free a bank
    if victim is None:
        return None
    if victim not in view.evictable:
        raise PolicyError(
            f"retention '{policies.retention.name}' asked to give up {victim} while {_standing(view)}: a group that "
            "runs before that one keeps its bank"
        )
    return Release(victim, held(state)[victim])


def _standing(view: View) -> str:
    """What the executor is at, for messages."""
    line = view.unread or view.ahead
    waits = f"{line[0]} is in no bank" if line else "no group of the layer is to be read"
    return f"{waits} and {view.free} of {len(view.state.banks)} banks are free"
