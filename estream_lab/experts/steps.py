"""Ways through the protocol, step by step: the states that moves lead through, a whole run, the moves as a trace.

Step k is the k-th move, from 1 on: there is no time. All of it is pure.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from estream_lab.experts.decide import Policies, decide, tell
from estream_lab.experts.exploration import Setting, explore
from estream_lab.experts.protocol import (
    IN_USE,
    NONE,
    READY,
    Arrived,
    Begin,
    Completed,
    End,
    Failed,
    Keep,
    Move,
    Publish,
    Read,
    Release,
    Reset,
    Routed,
    Run,
    State,
    Stop,
    apply,
    at_rest,
)
from estream_lab.experts.residency import SlotState
from estream_lab.experts.rules import refusal
from estream_lab.experts.schedule import CarryOver, Early
from estream_lab.trace import Span, Trace


def states(moves: Iterable[Move], banks: int) -> list[State]:
    """The states that ``moves``, allowed or not, lead through from rest: one more than there are moves."""
    found = [at_rest(banks)]
    for move in moves:
        found.append(apply(found[-1], move))
    return found


def refused(moves: Sequence[Move], setting: Setting) -> dict[int, str]:
    """The steps that a rule forbids, whatever ``setting.without`` says: step to the rule's name."""
    before = states(moves, setting.banks)[:-1]
    rules = (refusal(state, move, setting.limits) for state, move in zip(before, moves, strict=True))
    return {step: rule.name for step, rule in enumerate(rules, 1) if rule is not None}


def placement(state: State, setting: Setting) -> NDArray[np.int32]:
    """Phi of every layer in ``state``: int32 (L, E), the slot of each expert in a published bank, else -1.

    Experts are in file order by id, so that expert e is in place e mod G of group e // G.
    """
    size = setting.group_size
    slots = np.full((len(setting.limits.groups), setting.experts), -1, np.int32)
    for at, bank in enumerate(state.banks):
        if bank.key is not None and bank.state in (READY, IN_USE):
            held = slots[bank.key.layer, bank.key.group * size :][:size]  # (<= G,), the last group may be shorter
            held[:] = np.arange(at * size, at * size + len(held))
    return slots


def sentence(move: Move) -> str:
    """What a move does, in a few words."""
    match move:
        case Begin(layer, ahead):
            return f"layer {layer} begins" + (f", layer {ahead} is next" if ahead != NONE else "")
        case Routed(layer, needed):
            return f"routes of layer {layer} known: {_groups(needed)}"
        case Read(key, bank, _):
            return f"read {key} into bank {bank}"
        case Arrived(bank):
            return f"a slice arrives in bank {bank}"
        case Failed(bank):
            return f"the read into bank {bank} fails"
        case Publish(key, bank):
            return f"publish {key} in bank {bank}"
        case Run(key, bank, _):
            return f"run {key} in bank {bank}"
        case Completed(bank):
            return f"an invocation on bank {bank} completes"
        case Release(_, bank):
            return f"release bank {bank}"
        case Keep(key, bank):
            return f"keep {key} in bank {bank}"
        case End(layer):
            return f"layer {layer} ends"
        case Stop():
            return "the run is stopped"
        case Reset():
            return "a new run begins"


def _groups(numbers: Sequence[int]) -> str:
    listed = ", ".join(str(number) for number in numbers)
    return f"group{'s' if len(numbers) > 1 else ''} {listed}" if numbers else "no group"


# ---- one whole run


def walk(setting: Setting) -> tuple[Move, ...]:
    """One run of ``setting`` to its end, all rules on: its policies (by default the early schedule) decide at once
    whatever can be decided, and what is under way ends in the order in which it started.

    Each layer asks for the last of the sets in ``setting.needs()``, as soon as a group is ready or nothing is under
    way.
    """
    policies = setting.policies or Policies(CarryOver() if setting.ahead else Early())
    state, moves, pending = at_rest(setting.banks), list[Move](), deque[Move]()
    for layer, following in zip(setting.passes, [*setting.passes[1:], NONE], strict=True):
        move: Move = Begin(layer, following if setting.ahead else NONE)
        while True:
            state = tell(state, move, setting.limits)
            moves.append(move)
            if isinstance(move, End):
                break
            move = _decided(setting, decide(state, setting.limits, policies), pending) or _told(setting, state, pending)
    return tuple(moves)


def _decided(setting: Setting, move: Move | None, pending: deque[Move]) -> Move | None:
    """The decision with its parts counted, and what will be told of it added to ``pending``."""
    match move:
        case Read(key, bank):
            move = move._replace(slices=setting.slices(key))
            pending.extend([Arrived(bank)] * move.slices)
        case Run(_, bank):
            move = move._replace(invocations=setting.invocations)
            pending.extend([Completed(bank)] * move.invocations)
    return move


def _told(setting: Setting, state: State, pending: deque[Move]) -> Move:
    """What happens next where nothing is to be decided."""
    if not state.routed and (not pending or any(bank.state is READY for bank in state.banks)):
        return Routed(state.layer, setting.needs()[-1])
    end = End(state.layer)
    return end if refusal(state, end, setting.limits) is None else pending.popleft()


# ---- the transitions of a bank


def transitions(setting: Setting) -> dict[tuple[SlotState, SlotState], tuple[str, ...]]:
    """Every change of a bank's state that can be reached in ``setting``: (before, after) to the moves that make it."""
    found = explore(setting, keep_edges=True)
    reached = [at_rest(setting.banks)]
    for before, move in found.ways[1:]:
        assert move is not None
        reached.append(apply(reached[before], move))
    changes: dict[tuple[SlotState, SlotState], set[str]] = {}
    for number, move, _ in found.edges:
        after = apply(reached[number], move)
        for old, new in zip(reached[number].banks, after.banks, strict=True):
            if old != new and (old.state is not new.state or isinstance(move, Keep)):
                changes.setdefault((old.state, new.state), set()).add(type(move).__name__)
    return {change: tuple(sorted(changes[change])) for change in sorted(changes)}


# ---- moves as a trace


def trace(moves: Sequence[Move], banks: int, queue_depth: int) -> Trace:
    """The moves as a trace that numbers steps (clock "order"): what figures and `watch.hazards` take.

    A read lasts to its last slice, an execution to its last invocation, non-expert work to the layer's routes; what
    hasn't ended when the moves do lasts one step longer than they. What no span tells of is left out: publishing,
    giving up, stopping, that a read failed.

    Args:
        moves: from rest, allowed or not.
        banks, queue_depth: B and Q, for the provenance.
    """
    ends, last = _ends(moves), len(moves) + 1
    spans, request, since = list[Span](), 0, 0
    for step, move in enumerate(moves, 1):
        until = ends.get(step, last)
        match move:
            case Begin(layer, _):
                spans.append(_span("dense", "non-expert work", step, until, request, layer=layer))
            case Routed(layer, needed):
                known = (_span("plan", "routed", step, step, request, layer=layer, group=group) for group in needed)
                spans.extend(known)
            case Read(key, bank, _):
                spans.append(
                    _span("storage", "read", step, until, request, layer=key.layer, group=key.group, bank=bank)
                )
            case Run(key, bank, _):
                where = {"layer": key.layer, "group": key.group, "bank": bank}
                spans.append(_span("expert", "expert group", step, until, request, **where))
            case End(layer):
                spans.append(_span("plan", "ended", step, step, request, layer=layer))
            case Reset():
                spans.append(_span("request", "run", since, step, request))
                request, since = request + 1, step
    spans.append(_span("request", "run", since, last, request))
    return Trace(tuple(spans), {"kind": "model", "lane": "protocol", "banks": banks, "queue_depth": queue_depth})


def _span(unit: str, name: str, start: int, end: int, request: int, **where: int) -> Span:
    return Span("protocol", "order", unit, name, start, end - start, request, **where)


def _ends(moves: Sequence[Move]) -> dict[int, int]:
    """The step at which each read, execution or layer's non-expert work has ended, by the step at which it began."""
    under_way: dict[tuple[str, int], deque[int]] = defaultdict(deque)  # a beginning's step once for each of its parts
    ends: dict[int, int] = {}
    for step, move in enumerate(moves, 1):
        match move:
            case Read(_, bank, parts):
                under_way["read", bank].extend([step] * parts)
            case Run(_, bank, parts):
                under_way["run", bank].extend([step] * parts)
            case Begin():
                under_way["begin", NONE].append(step)
            case Arrived(bank):
                ends[under_way["read", bank].popleft()] = step
            case Completed(bank):
                ends[under_way["run", bank].popleft()] = step
            case Routed():
                ends[under_way["begin", NONE].popleft()] = step
            case Failed(bank):
                ends[under_way["read", bank][0]] = step
                under_way["read", bank].clear()
            case Reset():
                under_way.clear()
    return ends | {step: len(moves) + 1 for steps in under_way.values() for step in steps}
