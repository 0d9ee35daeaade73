"""The protocol of expert virtualization as an explicit state model (paper sections 4 and 5).

Everything that happens to the arena is a *move*: something that the outside tells (a layer begins, its routes are
known, a slice arrives, an invocation completes, a read fails, the run is cancelled) or something that is decided (read,
publish, run, release, keep, stop). `apply` says what a move changes; what it must wait for is in `experts.rules`. Both
are pure. Lanes, the simulator and the exhaustive exploration use these same functions: what is proved is what runs.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar, get_args

from estream_lab.errors import EStreamError
from estream_lab.experts.residency import SlotState

AVAILABLE, FILLING, READY, IN_USE = SlotState
NONE = -1


class GroupKey(NamedTuple):
    """Group ``group`` of layer ``layer``."""

    layer: int
    group: int

    def __str__(self) -> str:
        return f"group {self.group} of layer {self.layer}"


class Bank(NamedTuple):
    """One bank: its state, the group that it holds or waits for, slices still to arrive, whether its read failed, and
    whether its group is kept for a later pass over its layer."""

    state: SlotState = AVAILABLE
    key: GroupKey | None = None
    missing: int = 0
    failed: bool = False
    kept: bool = False


class Limits(NamedTuple):
    """What never changes: Q, the most outstanding reads, and K, the number of groups of each layer."""

    queue_depth: int
    groups: tuple[int, ...]


class State(NamedTuple):
    """The whole pipeline.

    Attributes:
        banks: B of them. free: the available ones, longest free first.
        layer: under way, NONE between layers. ahead: the layer after it whose reads may start already, NONE for none.
        routed: the layer's routes are known. to_run: its groups with routes that have not been run, in visit order.
        running: the bank whose group is executed, NONE for none; invocations: of it that have not completed.
        stopped: the run was given up.
    """

    banks: tuple[Bank, ...]
    free: tuple[int, ...]
    layer: int = NONE
    ahead: int = NONE
    routed: bool = False
    to_run: tuple[int, ...] = ()
    running: int = NONE
    invocations: int = 0
    stopped: bool = False


Record = TypeVar("Record", State, Bank)


def at_rest(banks: int) -> State:
    """The state of an arena of ``banks`` empty banks."""
    return State((Bank(),) * banks, tuple(range(banks)))


class Begin(NamedTuple):
    """A layer's non-expert work begins; ``ahead`` is the layer that will follow, NONE if that isn't known."""

    layer: int
    ahead: int = NONE


class Routed(NamedTuple):
    """The layer's router has run: ``needed`` are its groups with routes, in visit order."""

    layer: int
    needed: tuple[int, ...]


class Read(NamedTuple):
    """Start to read ``key`` into ``bank``, in ``slices`` parts."""

    key: GroupKey
    bank: int
    slices: int = 1


class Arrived(NamedTuple):
    """One slice of ``bank``'s group is in memory and verified."""

    bank: int


class Failed(NamedTuple):
    """The read into ``bank`` has ended with an error."""

    bank: int


class Publish(NamedTuple):
    """All of ``key`` is in ``bank``: its translations become visible together."""

    key: GroupKey
    bank: int


class Run(NamedTuple):
    """Submit ``key``, ready in ``bank``, in ``invocations`` graph invocations."""

    key: GroupKey
    bank: int
    invocations: int = 1


class Completed(NamedTuple):
    """One invocation on ``bank`` has completed."""

    bank: int


class Release(NamedTuple):
    """Give up ``bank``, which held ``key``."""

    key: GroupKey
    bank: int


class Keep(NamedTuple):
    """Leave ``key`` in ``bank`` for a later pass over its layer; it can be given up at any time."""

    key: GroupKey
    bank: int


class End(NamedTuple):
    """The layer is done."""

    layer: int


class Stop(NamedTuple):
    """The run is cancelled, or given up because a read failed."""


class Reset(NamedTuple):
    """After a stop, everything is given up: a new run may begin."""


Move = Begin | Routed | Read | Arrived | Failed | Publish | Run | Completed | Release | Keep | End | Stop | Reset


def _same(move: tuple[object, ...], other: object) -> bool:
    return type(other) is type(move) and tuple.__eq__(move, other)


def _different(move: tuple[object, ...], other: object) -> bool:
    return not _same(move, other)


def _hash(move: tuple[object, ...]) -> int:
    return hash((type(move).__name__, *move))


for _kind in get_args(Move):  # named tuples are equal where their contents are: an arrival would be a failure
    _kind.__eq__, _kind.__ne__, _kind.__hash__ = _same, _different, _hash


class ProtocolError(EStreamError):
    """A move that a rule forbids: a wrong policy, or a fault of this program; it is refused before it does harm."""


# ---- what a state says


def held(state: State) -> dict[GroupKey, int]:
    """The bank of every group that is in one, loaded or being loaded."""
    return {bank.key: at for at, bank in enumerate(state.banks) if bank.key is not None}


def outstanding(state: State) -> int:
    """Reads that have started and not ended."""
    return len([bank for bank in state.banks if bank.missing and bank.state is FILLING and not bank.failed])


def unread(state: State, limits: Limits) -> tuple[GroupKey, ...]:
    """Groups of the layer that are in no bank and have, or for want of routes may have, work; in visit order."""
    return tuple([*_unread(state, limits)])


def unread_ahead(state: State, limits: Limits) -> tuple[GroupKey, ...]:
    """Groups of the following layer that are in no bank, in visit order."""
    return tuple([*_unread_ahead(state, limits)])


def first_unread(state: State, limits: Limits) -> GroupKey | None:
    """The first group that is in no bank, of this layer or else of the following one."""
    return next(_unread(state, limits), None) or next(_unread_ahead(state, limits), None)


def _unread(state: State, limits: Limits) -> Iterator[GroupKey]:
    if state.layer == NONE:
        return
    homes = {bank.key.group for bank in state.banks if bank.key is not None and bank.key.layer == state.layer}
    for group in state.to_run if state.routed else range(limits.groups[state.layer]):
        if group not in homes:
            yield GroupKey(state.layer, group)


def _unread_ahead(state: State, limits: Limits) -> Iterator[GroupKey]:
    if state.layer == NONE or state.ahead == NONE:
        return
    homes = {bank.key.group for bank in state.banks if bank.key is not None and bank.key.layer == state.ahead}
    for group in range(limits.groups[state.ahead]):
        if group not in homes:
            yield GroupKey(state.ahead, group)


def evictable(state: State, limits: Limits) -> tuple[GroupKey, ...]:
    """Kept groups that may be given up: those that will be wanted after the first group that is in no bank."""
    kept = [bank.key for bank in state.banks if bank.kept and bank.key is not None]
    first = first_unread(state, limits) if kept else None
    if first is None:
        return ()
    when = turn(state, first)
    return tuple([key for key in kept if turn(state, key) > when])


def turn(state: State, key: GroupKey) -> tuple[int, int]:
    """When a group may be wanted: this layer's in visit order, then the following layer's, then all others."""
    if key.layer == state.layer and (not state.routed or key.group in state.to_run):
        return (0, key.group)
    return (1, key.group) if key.layer == state.ahead else (2, 0)


def spent(state: State, at: int) -> bool:
    """Whether ``at`` holds a group of this layer that has been run, or turned out to have no route."""
    bank = state.banks[at]
    ours = bank.key is not None and bank.key.layer == state.layer and state.routed and not bank.kept
    return ours and bank.key is not None and bank.key.group not in state.to_run and bank.state in (READY, IN_USE)


# ---- what a move changes


def apply(state: State, move: Move) -> State:
    """The state after ``move``, allowed or not: `refusal` is asked first."""
    match move:
        case Begin(layer, ahead):
            return _changed(state, layer=layer, ahead=ahead, routed=False, to_run=())
        case Routed(_, needed):
            return _changed(state, routed=True, to_run=needed)
        case Read(key, bank, slices):
            free = tuple([b for b in state.free if b != bank])
            return _changed(_with(state, bank, Bank(FILLING, key, slices)), free=free)
        case Arrived(bank):
            return _with(state, bank, _changed(state.banks[bank], missing=state.banks[bank].missing - 1))
        case Failed(bank):
            return _with(state, bank, _changed(state.banks[bank], failed=True, missing=0))
        case Publish(_, bank):
            return _with(state, bank, _changed(state.banks[bank], state=READY))
        case Run(key, bank, invocations):
            left = tuple([group for group in state.to_run if group != key.group])
            running = _with(state, bank, _changed(state.banks[bank], state=IN_USE, kept=False))
            return _changed(running, to_run=left, running=bank, invocations=invocations)
        case Completed(_):
            left_over = state.invocations - 1
            return _changed(state, invocations=left_over, running=state.running if left_over else NONE)
        case Release(_, bank):
            return _changed(_with(state, bank, Bank()), free=(*state.free, bank))
        case Keep(_, bank):
            return _with(state, bank, _changed(state.banks[bank], state=READY, kept=True))
        case End(_):
            return _changed(state, layer=NONE, ahead=NONE, routed=False)
        case Stop():
            return _changed(state, stopped=True)
        case Reset():
            return at_rest(len(state.banks))


_PLACES = {kind: {name: place for place, name in enumerate(kind._fields)} for kind in (State, Bank)}


def _changed(of: Record, **changes: Any) -> Record:
    """``of`` with other values. Not `_replace`, and no tuple of a generator in this file: such tuples are drawn with
    ten places and cut, and CPython keeps up to 2,000 of each length for reuse that never comes."""
    kind, values = type(of), list(of)
    places = _PLACES[kind]
    for name, value in changes.items():
        values[places[name]] = value
    return tuple.__new__(kind, values)


def _with(state: State, at: int, bank: Bank) -> State:
    return _changed(state, banks=(*state.banks[:at], bank, *state.banks[at + 1 :]))
