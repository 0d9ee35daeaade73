"""A hazard checker: watches what happens to the memory of the banks, whoever decided it, and names what collides.

It keeps its own account of which bytes are where, from the moves alone, and knows nothing of the rules or policies that
led to them. The exhaustive exploration, a live lane and a recorded trace are held to the same account.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from estream_lab.errors import EStreamError
from estream_lab.experts.protocol import (
    NONE,
    Arrived,
    Begin,
    Completed,
    End,
    Failed,
    GroupKey,
    Move,
    Read,
    Reset,
    Routed,
    Run,
    Stop,
)

SENTENCES = {
    "begin": "the begin of layer {layer}",
    "routed": "the routes of layer {layer} became known",
    "read": "a read of {key} into bank {bank}",
    "arrived": "the arrival of {key} in bank {bank}",
    "failed": "the failed read of {key} into bank {bank}",
    "run": "the execution of {key} in bank {bank}",
    "end": "the end of layer {layer}",
    "stop": "the stop",
    "reset": "the new start",
    "kept": "{key} in bank {bank} from before",
    "nothing": "nothing before",
    "hang": "nothing can follow",
    "policy": "the policy's choice",
}


class Event(NamedTuple):
    """Something that happened: what (a key of `SENTENCES`), when (ns, or the step's number), and to what."""

    what: str
    at: int = 0
    key: GroupKey | None = None
    bank: int = NONE
    layer: int = NONE

    def __str__(self) -> str:
        return SENTENCES[self.what].format(key=self.key, bank=self.bank, layer=self.layer)


class Hazard(NamedTuple):
    """Two events that must not meet.

    Attributes:
        kind: such as "early publish". first, second: the events, in order. why: what comes of it.
    """

    kind: str
    first: Event
    second: Event
    why: str

    def __str__(self) -> str:
        after = "" if self.first.what == "nothing" else f" after {self.first} (at {self.first.at})"
        return f"{self.kind}: {self.second} (at {self.second.at}){after}: {self.why}"


class HazardError(EStreamError):
    """The hazard checker of a live lane saw a hazard; the run is given up before it becomes a result."""


class _Memory(NamedTuple):
    """What a bank's bytes are: of which group, parts still on their way, whether one was bad, and who reads them."""

    key: GroupKey | None = None
    flying: int = 0
    bad: bool = False
    reader: GroupKey | None = None
    invocations: int = 0


NOTHING = Event("nothing")


@dataclass
class HazardChecker:
    """Tell it every move with `observe`; it keeps what it found in `hazards`.

    Attributes:
        banks: B. queue_depth: Q, None where it isn't known.
        strict: raise a `HazardError` at once.
    """

    banks: int
    queue_depth: int | None = None
    strict: bool = False
    hazards: list[Hazard] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rest()

    def rest(self) -> None:
        """The watch begins anew on empty banks; what was found stays."""
        self._memory = [_Memory()] * self.banks
        self._layer = NONE
        self._needed: frozenset[int] | None = None
        self._ran: tuple[int, ...] = ()
        self._stopped = False
        self._unrouted: frozenset[GroupKey] = frozenset()  # read before the routes of their layer were known
        # For messages only: the latest event of each bank (read, data, run), and of the layer.
        self._latest: dict[tuple[str, int], Event] = {}

    def keeps(self, key: GroupKey, bank: int) -> None:
        """Tell that ``bank`` held ``key`` when the watch began."""
        self._memory[bank] = _Memory(key)
        self._note("data", bank, Event("kept", 0, key, bank))

    def account(self) -> tuple[object, ...]:
        """All that later findings depend on, hashable: two checkers of equal account find the same from here on."""
        return (*self._memory, self._layer, self._needed, self._ran, self._stopped, self._unrouted)

    def copy(self) -> "HazardChecker":
        """An independent checker of the same account, without findings."""
        other = HazardChecker(self.banks, self.queue_depth, self.strict)
        other._memory, other._latest = self._memory.copy(), self._latest.copy()
        other._layer, other._needed, other._ran = self._layer, self._needed, self._ran
        other._stopped, other._unrouted = self._stopped, self._unrouted
        return other

    def observe(self, move: Move, at: int = 0) -> None:
        """Take note of ``move``; moves that change no memory and start nothing are passed over.

        Raises:
            HazardError: if ``strict``, at the first hazard.
        """
        match move:
            case Begin(layer, _):
                self._begin(layer, Event("begin", at, layer=layer))
            case Routed(layer, needed):
                self._layer, self._needed, self._ran = layer, frozenset(needed), ()
                self._unrouted = frozenset(key for key in self._unrouted if key.layer != layer)
                self._note("layer", 0, Event("routed", at, layer=layer))
            case Read(key, bank, slices):
                self._read(key, bank, slices, Event("read", at, key, bank))
            case Arrived(bank) | Failed(bank):
                self._arrived(bank, isinstance(move, Failed), at)
            case Run(key, bank, invocations):
                self._run(key, bank, invocations, Event("run", at, key, bank))
            case Completed(bank):
                memory = self._memory[bank]
                left = memory.invocations - 1
                self._memory[bank] = memory._replace(invocations=left, reader=memory.reader if left else None)
            case End(layer):
                self._end(layer, Event("end", at, layer=layer))
            case Stop():
                self._stop(Event("stop", at))
            case Reset():
                self._reset(Event("reset", at))

    # ---- what each move may not meet

    def _begin(self, layer: int, event: Event) -> None:
        if self._layer != NONE:
            self._found("not ended", self._of("layer", 0), event, f"layer {self._layer} is left unfinished")
        self._layer, self._needed, self._ran = layer, None, ()
        self._note("layer", 0, event)

    def _read(self, key: GroupKey, bank: int, slices: int, event: Event) -> None:
        memory = self._memory[bank]
        if memory.reader is not None:
            self._found("early reuse", self._of("run", bank), event, f"{memory.reader} computes with bytes of {key}")
        if memory.flying:
            self._found("double owner", self._of("read", bank), event, f"bytes of {memory.key} and {key} mix")
        for other, home in enumerate(self._memory):
            if other != bank and home.key == key and home.flying:
                self._found("double home", self._of("read", other), event, f"{key} is read into two banks")
        flying = [other for other, home in enumerate(self._memory) if home.flying]
        if self.queue_depth is not None and len(flying) >= self.queue_depth:
            oldest = min((self._of("read", other) for other in flying), key=lambda known: known.at)
            self._found("queue overrun", oldest, event, f"more than {self.queue_depth} reads are outstanding")
        known = self._needed is not None and key.layer == self._layer
        if known and self._needed is not None and (key.group not in self._needed or key.group in self._ran):
            self._found("useless read", self._of("layer", 0), event, f"{key} has no work, or has done it")
        if self._stopped:
            self._found("start after the stop", self._of("stop", 0), event, "the run never comes to rest")
        if not known:
            self._unrouted |= {key}
            ours = [other for other in self._unrouted if other.layer == key.layer]
            if len(ours) > self.banks:
                self._found(
                    "reads ahead", self._of("layer", 0), event, f"more than {self.banks} reads before the routes"
                )
        self._memory[bank] = memory._replace(key=key, flying=memory.flying + slices, bad=False)
        self._note("read", bank, event)

    def _arrived(self, bank: int, bad: bool, at: int) -> None:
        memory = self._memory[bank]
        flying = 0 if bad else memory.flying - 1
        self._memory[bank] = memory._replace(flying=flying, bad=memory.bad or bad)
        self._note("data", bank, Event("failed" if bad else "arrived", at, memory.key, bank))

    def _run(self, key: GroupKey, bank: int, invocations: int, event: Event) -> None:
        memory = self._memory[bank]
        if memory.key != key:
            there = f"bank {bank} holds {memory.key}" if memory.key is not None else f"bank {bank} holds nothing"
            self._found("wrong data", self._of("read", bank), event, there)
        elif memory.flying:
            self._found("early publish", self._of("read", bank), event, "a part of its weights hasn't arrived")
        elif memory.bad:
            self._found("bad data", self._of("data", bank), event, "its weights failed their check")
        if self._needed is None or key.layer != self._layer:
            self._found("before routing", self._of("data", bank), event, "the layer's routes aren't known")
        elif key.group in self._ran:
            self._found("run twice", self._of("run", bank), event, "its routes are added into the result again")
        elif key.group not in self._needed:
            self._found("no routes", self._of("layer", 0), event, "it has no work in this layer")
        elif self._ran and key.group < self._ran[-1]:
            self._found("out of order", self._of("last run", 0), event, "sums are rounded in another order")
        running = [other for other, home in enumerate(self._memory) if home.reader is not None]
        if running:
            self._found("two at once", self._of("run", running[0]), event, "two executions add into one result")
        if self._stopped:
            self._found("start after the stop", self._of("stop", 0), event, "the run never comes to rest")
        self._ran = (*self._ran, key.group)
        self._memory[bank] = memory._replace(reader=key, invocations=invocations)
        self._note("run", bank, event)
        self._note("last run", 0, event)

    def _end(self, layer: int, event: Event) -> None:
        missed = sorted((self._needed or frozenset()) - frozenset(self._ran)) if layer == self._layer else []
        if missed:
            keys = ", ".join(str(group) for group in missed)
            self._found("never run", self._of("layer", 0), event, f"routes of group {keys} are left out of the result")
        for bank, memory in enumerate(self._memory):
            if memory.reader is not None:
                self._found("still running", self._of("run", bank), event, "the result is used before it is whole")
            if memory.flying and memory.key is not None and memory.key.layer == layer:
                self._found("left behind", self._of("read", bank), event, "its bytes arrive in the next layer's bank")
        self._layer, self._needed, self._ran = NONE, None, ()

    def _stop(self, event: Event) -> None:
        self._stopped = True
        self._note("stop", 0, event)

    def _reset(self, event: Event) -> None:
        for bank, memory in enumerate(self._memory):
            if memory.flying:
                self._found("left behind", self._of("read", bank), event, "its bytes arrive in the next run's bank")
            if memory.reader is not None:
                self._found("still running", self._of("run", bank), event, "it computes while the bank is filled anew")
        self._layer, self._needed, self._ran, self._stopped = NONE, None, (), False
        self._unrouted = frozenset()

    def _found(self, kind: str, first: Event, second: Event, why: str) -> None:
        hazard = Hazard(kind, first, second, why)
        self.hazards.append(hazard)
        if self.strict:
            raise HazardError(f"hazard, {hazard}")

    def _note(self, what: str, bank: int, event: Event) -> None:
        self._latest[what, bank] = event

    def _of(self, what: str, bank: int) -> Event:
        return self._latest.get((what, bank), NOTHING)
