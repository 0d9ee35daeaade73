"""The pipeline on a virtual clock: the rules and policies of a live lane, service times in place of work.

What a lane does on threads happens here in order of time: `experts.decide` says what to do next, the clock jumps to
whatever ends next. Spans have the lane's units and fields, on the clock "simulated". Things that happen at one time are
all told before anything is decided.
"""

from collections.abc import Callable, Sequence

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies, advance, tell
from estream_lab.experts.protocol import (
    NONE,
    Arrived,
    Begin,
    Completed,
    End,
    GroupKey,
    Limits,
    Move,
    Read,
    Routed,
    Run,
    at_rest,
)
from estream_lab.experts.rules import refusal
from estream_lab.experts.schedule import CarryOver
from estream_lab.simulate.storage import OwnTimes, SharedBandwidth, Storage
from estream_lab.simulate.times import LayerTimes, ServiceTimes
from estream_lab.trace import Recorder, Trace

LANE = "simulator"


def replay(
    requests: ServiceTimes | Sequence[ServiceTimes],
    policies: Policies,
    *,
    banks: int,
    queue_depth: int,
    storage: Storage | None = None,
) -> Trace:
    """What would happen under ``policies``, with these service times.

    Args:
        requests: one, or several that run in turn on one arena.
        policies: schedule and retention, the engine's own classes.
        banks, queue_depth: B and Q.
        storage: how long reads take; each its own service time by default.

    Returns:
        One trace of all requests; the first begins at 0.

    Raises:
        PolicyError: a policy broke a rule, or starves the executor.
        EStreamError: no bank, no queue place, nothing to replay, or passes that disagree on a layer's groups.
    """
    asked = (requests,) if isinstance(requests, ServiceTimes) else tuple(requests)
    if banks < 1 or queue_depth < 1:
        raise EStreamError(f"a pipeline needs a bank and a queue place, not B={banks} and Q={queue_depth}")
    clock = _Clock(_limits(asked, queue_depth), policies, banks, storage or OwnTimes())
    for number, request in enumerate(asked):
        clock.request(number, request)
    facts = _provenance(asked, policies, banks, queue_depth)
    if isinstance(storage, SharedBandwidth):
        facts["read_bandwidth_bytes_per_second"] = storage.bytes_per_second
    return Trace(tuple(span for recorder in clock.recorders for span in recorder.trace({}).spans), facts)


class _Clock:
    """One arena, its storage and its executor. ``now`` is in ns."""

    def __init__(self, limits: Limits, policies: Policies, banks: int, storage: Storage) -> None:
        self.recorders: list[Recorder] = []
        self._limits, self._policies = limits, policies
        self._state = at_rest(banks)
        self._reads = storage.open()
        self._started: dict[int, tuple[GroupKey, int, int]] = {}  # bank: group being read, start, bytes
        self._run: Run | None = None  # decided, and not yet begun
        self._now = 0
        self._times: dict[int, LayerTimes] = {}

    def request(self, number: int, request: ServiceTimes) -> None:
        """Run one request from its begin to its end."""
        recorder = Recorder(LANE, "simulated", number)
        self.recorders.append(recorder)
        begin = self._now
        for at, bank in enumerate(self._state.banks):
            if bank.kept and bank.key is not None:
                recorder.add("plan", "kept", begin, begin, layer=bank.key.layer, group=bank.key.group, bank=at)
        self._work("embedding", request.lead_ns)
        following = (*request.passes[1:], None)
        for times, after in zip(request.passes, following, strict=True):
            self._layer(times, after if after is not None and after.layer == times.layer + 1 else None)
        self._work("head", request.tail_ns)
        recorder.add("request", "prefill", begin, self._now)

    # ---- the executor: what a lane does between `begin` and the end of `run`

    def _layer(self, times: LayerTimes, ahead: LayerTimes | None) -> None:
        recorder, layer = self.recorders[-1], times.layer
        self._times = {known.layer: known for known in (times, ahead) if known is not None}
        self._happen(Begin(layer, ahead.layer if ahead is not None else NONE))
        self._work("non-expert work", times.non_expert_ns, layer)
        for group in times.needed:
            rows = times.rows.get(group)
            recorder.add("plan", "routed", self._now, self._now, layer=layer, group=group, rows=rows)
        self._happen(Routed(layer, times.needed))
        for group in times.needed:
            self._wait(lambda: self._run is not None, layer, group)
            run, self._run = self._run, None
            assert run is not None and run.key == GroupKey(layer, group)
            start = self._now
            self._pass(times.runs_ns[group])
            place = {"layer": layer, "group": group, "bank": run.bank, "rows": times.rows.get(group)}
            recorder.add("expert", "expert group", start, self._now, **place)
            self._happen(Completed(run.bank))
        self._wait(lambda: refusal(self._state, End(layer), self._limits) is None, layer, None)
        recorder.add("plan", "ended", self._now, self._now, layer=layer)
        self._happen(End(layer))
        self._pass(times.rest_ns)

    def _work(self, name: str, duration: int, layer: int | None = None) -> None:
        """Non-expert work."""
        start = self._now
        self._pass(duration)
        if duration:
            self.recorders[-1].add("dense", name, start, self._now, layer=layer)

    def _pass(self, duration: int) -> None:
        """Let time go by; reads that end before it is over are followed by what is decided then."""
        until = self._now + duration
        while (end := self._reads.next_end()) is not None and end < until:
            self._now = end
            self._arrive()
            self._advance()
        self._now = until

    def _wait(self, condition: Callable[[], bool], layer: int, group: int | None) -> None:
        """Let reads end until ``condition`` holds."""
        start = self._now
        while not condition():
            end = self._reads.next_end()
            assert end is not None, "`advance` refuses policies that starve the executor"
            self._now = end
            self._arrive()
            self._advance()
        if self._now > start:
            self.recorders[-1].add("wait", "wait for group", start, self._now, layer=layer, group=group)

    # ---- the protocol

    def _happen(self, move: Move) -> None:
        """``move`` happens now, together with the ends of reads that are due now."""
        self._state = tell(self._state, move, self._limits)
        self._arrive()
        self._advance()

    def _arrive(self) -> None:
        for bank in self._reads.ended(self._now):
            key, start, count = self._started.pop(bank)
            place = {"layer": key.layer, "group": key.group, "bank": bank, "bytes": count}
            self.recorders[-1].add("storage", "read", start, self._now, **place)
            self._state = tell(self._state, Arrived(bank), self._limits)

    def _advance(self) -> None:
        self._state, moves = advance(self._state, self._limits, self._policies)
        for move in moves:
            match move:
                case Read(key, bank):
                    times = self._times[key.layer]
                    count = times.read_bytes[key.group] if times.read_bytes else 0
                    self._started[bank] = (key, self._now, count)
                    place = {"layer": key.layer, "group": key.group, "bank": bank}
                    self.recorders[-1].add("plan", "issued", self._now, self._now, **place)
                    self._reads.start(bank, self._now, times.reads_ns[key.group], count)
                case Run():
                    self._run = move


def _limits(requests: tuple[ServiceTimes, ...], queue_depth: int) -> Limits:
    passes = [times for request in requests for times in request.passes]
    if not requests or not all(request.passes for request in requests):
        raise EStreamError("there is nothing to replay: give requests with at least one layer each")
    groups: dict[int, int] = {}
    for times in passes:
        if groups.setdefault(times.layer, len(times.reads_ns)) != len(times.reads_ns):
            raise EStreamError(
                f"layer {times.layer} has {groups[times.layer]} groups in one pass and {len(times.reads_ns)} in "
                "another: take service times of one group size"
            )
    return Limits(queue_depth, tuple(groups.get(layer, 0) for layer in range(max(groups) + 1)))


def _provenance(
    requests: tuple[ServiceTimes, ...], policies: Policies, banks: int, queue_depth: int
) -> dict[str, str | int | float | bool]:
    """Of the measurement that the times come from, what is still true; and what was simulated."""
    source = dict(requests[0].provenance)
    for fact in ("lane", "arena_bytes", "runs", "direct_io"):
        source.pop(fact, None)
    return {
        **source,
        "lane": LANE,
        "kind": "simulated from measured service times" if source else "simulated from service times made up",
        "schedule": policies.schedule.name,
        "carry_over": isinstance(policies.schedule, CarryOver),
        "retention": policies.retention.name,
        "banks": banks,
        "queue_depth": queue_depth,
    }
