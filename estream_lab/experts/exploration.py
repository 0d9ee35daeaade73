"""Exhaustive exploration: every interleaving of the protocol for small arenas, each state visited once.

The states are those of `experts.protocol` with the account of a `HazardChecker` beside them. Where a rule is taken away
the shortest way into trouble is kept: breadth first, so no shorter one exists.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

from estream_lab.experts.decide import Policies, PolicyError, decide
from estream_lab.experts.hazards import Event, Hazard, HazardChecker
from estream_lab.experts.protocol import (
    AVAILABLE,
    FILLING,
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
    apply,
    at_rest,
)
from estream_lab.experts.rules import refusal


@dataclass(frozen=True)
class Setting:
    """What is explored.

    Attributes:
        experts: E. group_size: G; the last group has the rest. banks: B. queue_depth: Q.
        passes: layers in the order in which they are run; a layer that comes twice stands for a second request.
        policies: None explores every policy that the rules allow.
        invocations: of each group (R > C).
        needed: the sets of groups that routes may ask for; all subsets by default.
        stop, fail: whether the run may be cancelled, or a read may fail, at any point; the run then starts anew.
        faults: how often that may happen.
        ahead: whether the following layer's groups may be read already.
        keep: where policies is None, whether groups may be kept.
        without: rules taken away.
    """

    experts: int
    group_size: int
    banks: int
    queue_depth: int
    passes: tuple[int, ...] = (0,)
    policies: Policies | None = None
    invocations: int = 1
    needed: tuple[tuple[int, ...], ...] | None = None
    stop: bool = False
    fail: bool = False
    faults: int = 1
    keep: bool = False
    ahead: bool = False
    without: frozenset[str] = frozenset()

    @property
    def groups(self) -> int:
        """K of each layer."""
        return -(-self.experts // self.group_size)

    @property
    def limits(self) -> Limits:
        """What the protocol calls its limits."""
        return Limits(self.queue_depth, (self.groups,) * (max(self.passes) + 1))

    def slices(self, key: GroupKey) -> int:
        """Parts that a group arrives in: its experts."""
        return min(self.group_size, self.experts - key.group * self.group_size)

    def needs(self) -> tuple[tuple[int, ...], ...]:
        """All that a router may ask for."""
        if self.needed is not None:
            return self.needed
        sizes = range(self.groups + 1)
        return tuple(choice for size in sizes for choice in combinations(range(self.groups), size))


@dataclass(frozen=True)
class Trouble:
    """What went wrong, and the shortest way there."""

    moves: tuple[Move, ...]
    hazard: Hazard

    @property
    def kind(self) -> str:
        """The hazard's kind."""
        return self.hazard.kind


@dataclass
class Exploration:
    """What an exploration found.

    Attributes:
        states, transitions: how many there are. ends: states in which everything was done and is at rest.
        trouble: the first trouble of each kind.
        ways: for each state, how it was first reached: (state before, move); with ``edges`` every transition, if asked.
    """

    setting: Setting
    states: int = 0
    transitions: int = 0
    ends: int = 0
    trouble: dict[str, Trouble] = field(default_factory=dict)
    ways: list[tuple[int, Move | None]] = field(default_factory=list)
    edges: list[tuple[int, Move, int]] = field(default_factory=list)

    def way(self, state: int) -> tuple[Move, ...]:
        """The moves of a shortest way to a state."""
        moves: list[Move] = []
        while (step := self.ways[state])[1] is not None:
            moves.append(step[1])
            state = step[0]
        return tuple(reversed(moves))


@dataclass(frozen=True)
class _Node:
    state: State
    checker: HazardChecker
    position: int  # in passes
    faults: int  # that may still happen


def explore(setting: Setting, *, keep_edges: bool = False, first_trouble: bool = False) -> Exploration:
    """Visit every reachable state.

    Args:
        keep_edges: keep all transitions, for driving an implementation along them.
        first_trouble: end at the first trouble.
    """
    found = Exploration(setting)
    faults = setting.faults if setting.stop or setting.fail else 0
    start = _Node(at_rest(setting.banks), HazardChecker(setting.banks, setting.queue_depth), 0, faults)
    numbers = {_key(start): 0}
    found.ways.append((0, None))
    queue = deque([(0, start)])
    while queue:
        number, node = queue.popleft()
        found.states += 1
        try:
            moves = list(_moves(setting, node))
        except PolicyError as error:
            hazard = Hazard("policy error", Event("nothing"), Event("policy", len(found.way(number)) + 1), str(error))
            found.trouble.setdefault("policy error", Trouble(found.way(number), hazard))
            continue
        if not moves:
            _check_end(setting, node, found, number)
        for move in moves:
            after = _step(setting, node, move, found, number)
            found.transitions += 1
            if after is None:
                continue
            key = _key(after)
            if key not in numbers:
                numbers[key] = len(found.ways)
                found.ways.append((number, move))
                queue.append((numbers[key], after))
            if keep_edges:
                found.edges.append((number, move, numbers[key]))
        if first_trouble and found.trouble:
            break
    return found


def _key(node: _Node) -> tuple[object, ...]:
    return (node.state, node.checker.account(), node.position, node.faults)


def _step(setting: Setting, node: _Node, move: Move, found: Exploration, number: int) -> _Node | None:
    """The node after ``move``; None where it leads into trouble."""
    checker = node.checker.copy()
    checker.observe(move)
    if checker.hazards:
        _keep_trouble(setting, found, checker.hazards[0].kind, (*found.way(number), move))
        return None
    position, faults = node.position, node.faults
    match move:
        case End():
            position += 1
        case Failed():
            faults -= 1
        case Stop():
            faults -= not any(bank.failed for bank in node.state.banks)
        case Reset():
            position = 0
    return _Node(apply(node.state, move), checker, position, faults)


def _keep_trouble(setting: Setting, found: Exploration, kind: str, moves: tuple[Move, ...]) -> None:
    """Keep the first way into each kind of trouble, its events numbered by step."""
    if kind not in found.trouble:
        checker = HazardChecker(setting.banks, setting.queue_depth)
        for step, move in enumerate(moves, 1):
            checker.observe(move, step)
        found.trouble[kind] = Trouble(moves, checker.hazards[0])


def _moves(setting: Setting, node: _Node) -> Iterator[Move]:
    """What may come next: what the outside may tell, and what is decided."""
    state, limits = node.state, setting.limits
    if setting.policies is not None and not state.stopped:
        decision = decide(state, limits, setting.policies)
        if decision is not None:  # decisions are carried out at once, before anything else can happen
            if (rule := refusal(state, decision, limits)) is not None:  # where it runs, nobody asks the rules again
                raise ProtocolError(f"{decision} was decided against the rule '{rule.name}'")
            yield (
                decision._replace(slices=setting.slices(decision.key))
                if isinstance(decision, Read)
                else (decision._replace(invocations=setting.invocations) if isinstance(decision, Run) else decision)
            )
            return
    offered = [*_told(setting, node), *_decisions(setting, state)]
    yield from (move for move in offered if refusal(state, move, limits, setting.without) is None)


def _told(setting: Setting, node: _Node) -> Iterator[Move]:
    state, passes = node.state, setting.passes
    if node.position < len(passes):
        following = passes[node.position + 1] if node.position + 1 < len(passes) else NONE
        yield Begin(passes[node.position], following if setting.ahead else NONE)
    if state.layer != NONE:
        if not state.routed:
            yield from (Routed(state.layer, needed) for needed in setting.needs())
        yield End(state.layer)
    for at, bank in enumerate(state.banks):
        if bank.state is FILLING and bank.missing:
            yield Arrived(at)
            if setting.fail and node.faults:
                yield Failed(at)
    if state.running != NONE:
        yield Completed(state.running)
    failed = any(bank.failed for bank in state.banks)
    if failed or (setting.stop and node.faults and (state.layer != NONE or node.position < len(passes))):
        yield Stop()
    yield Reset()


def _decisions(setting: Setting, state: State) -> Iterator[Move]:
    """Every decision that can be thought of; the rules sort out which are allowed."""
    if setting.policies is None:
        banks = range(len(state.banks)) if "free-bank" in setting.without else state.free[:1]
        layers = [layer for layer in (state.layer, state.ahead) if layer != NONE]
        keys = [GroupKey(layer, group) for layer in layers for group in range(setting.groups)]
        yield from (Read(key, bank, setting.slices(key)) for key in keys for bank in banks)
    for at, bank in enumerate(state.banks):
        if bank.key is None or bank.state is AVAILABLE:
            continue
        if setting.policies is None or state.stopped:
            yield Publish(bank.key, at)
            yield Release(bank.key, at)
            if bank.key.layer == state.layer:
                yield Run(bank.key, at, setting.invocations)
            if setting.keep:
                yield Keep(bank.key, at)


def _check_end(setting: Setting, node: _Node, found: Exploration, number: int) -> None:
    """No move is left: either all is done and given up, or the pipeline hangs."""
    state = node.state
    at_peace = state.layer == NONE and not state.stopped and node.position == len(setting.passes)
    if at_peace and all(bank.state is AVAILABLE or bank.kept for bank in state.banks):
        found.ends += 1
        return
    held = ", ".join(
        f"bank {at}: {bank.state.name}{f' {bank.key}' if bank.key is not None else ''}"
        for at, bank in enumerate(state.banks)
    )
    way = found.way(number)
    hazard = Hazard("deadlock", Event("nothing"), Event("hang", len(way) + 1), held)
    found.trouble.setdefault("deadlock", Trouble(way, hazard))


def without(setting: Setting, rule: str) -> Trouble | None:
    """The shortest way into trouble when ``rule`` is taken away; None where there is none."""
    found = explore(replace(setting, without=frozenset({rule})), first_trouble=True)
    return next(iter(found.trouble.values()), None)


def endless(found: Exploration) -> int:
    """States from which a way leads back to themselves, or that such a state leads to; needs ``keep_edges``.

    0 says that whatever happens the number of moves is bounded.
    """
    into: Counter[int] = Counter(target for _, _, target in found.edges)
    after: dict[int, list[int]] = {}
    for source, _, target in found.edges:
        after.setdefault(source, []).append(target)
    ready, left = deque([0]), found.states
    while ready:
        left -= 1
        for target in after.get(ready.popleft(), ()):
            into[target] -= 1
            if not into[target]:
                ready.append(target)
    return left
