"""Inside an invocation: how long each step of the tile plan would take, and when it would start.

Three units, each in order, and the plan's waits (`kernels.vtcm.steps`) say what may run side by side; a device profile
says how fast. What a step costs:

| step | takes |
|---|---|
| fetch | the DMA's latency, and the packed bytes at its rate |
| decode | the panel's weights at the decode rate |
| gather | the elements of the row tile, in whole tiles, at the vector rate |
| product | rows, in whole tiles, x columns x inputs at the matrix rate |
| SwiGLU, scatter | the elements that it reads at the vector rate |

Waits, DRAM that others use, and starting an invocation cost nothing here. Slots follow each other without overlap.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from estream_lab.errors import EStreamError
from estream_lab.kernels.vtcm import CONSTANTS, UNIT_OF, Step, TilePlan, plan_for, steps
from estream_lab.kernels.vtcm.plan import whole_tiles
from estream_lab.simulate.device import MARKS, Device
from estream_lab.trace import Span, Trace

RATES = ("dma_rate", "dma_latency", "decode_rate", "vector_rate", "matrix_rate")
"""The numbers of a device profile that times come from."""

_PLAN = ("tile_rows", "ffn_panel_columns", "hidden_panel_columns", "vtcm_bytes")


@dataclass(frozen=True)
class Timing:
    """When each of some steps starts and ends, in ns from the first."""

    steps: tuple[Step, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def span_ns(self) -> int:
        """From the first start to the last end."""
        return max(self.ends, default=0)

    def busy_ns(self, unit: str) -> int:
        """What all steps of a unit take together."""
        times = zip(self.steps, self.starts, self.ends, strict=True)
        return sum(end - start for step, start, end in times if step.unit == unit)


def step_ns(device: Device, plan: TilePlan, step: Step) -> int:
    """How long a step takes, 1 ns at least: see the module's table."""
    read = sum(access.bytes for access in step.reads if access.region not in CONSTANTS)
    written = sum(access.bytes for access in step.writes)
    if step.kind == "fetch":
        time = device["dma_latency"] + 1e9 * written / device["dma_rate"]
    elif step.kind == "decode":
        time = 1e9 * written / 2 / device["decode_rate"]
    elif step.kind == "matmul":
        inputs, outputs = (plan.hidden, 2) if step.projection == "gate_up" else (plan.ffn, 1)
        time = 1e9 * 2 * whole_tiles(step.rows) * step.columns * inputs * outputs / device["matrix_rate"]
    else:
        time = 1e9 * (written if step.kind == "gather" else read) / 2 / device["vector_rate"]
    return max(1, round(time))


def timing(device: Device, plan: TilePlan, run: Sequence[Step]) -> Timing:
    """Each step as early as its unit and its waits allow."""
    free: dict[str, int] = {}
    starts: list[int] = []
    ends: list[int] = []
    for step in run:
        start = max([free.get(step.unit, 0), *(ends[wait] for wait in step.waits)])
        starts.append(start)
        ends.append(start + step_ns(device, plan, step))
        free[step.unit] = ends[-1]
    return Timing(tuple(run), tuple(starts), tuple(ends))


def invocation_ns(device: Device, plan: TilePlan, rows: Iterable[int]) -> int:
    """How long an invocation over slots with so many records takes; X of a group, by its tiles."""
    slots = list(rows)
    times = {count: timing(device, plan, steps(plan, count)).span_ns for count in set(slots)}
    return sum(times[count] for count in slots)


def modelled(recorded: Trace, device: Device, hidden: int, ffn: int) -> Trace:
    """The exact executor's steps, recorded on the clock "order", with the times that this device would take.

    Args:
        recorded: `PrefillResult.steps`, or an operator's.
        device: whose rates.
        hidden, ffn: H and F of the experts.

    Returns:
        The same spans on the clock "modelled"; the first step starts at 0.

    Raises:
        EStreamError: a trace without steps or tile plan, or steps that are not the plan's for such experts.
    """
    if any(name not in recorded.provenance for name in _PLAN):
        raise EStreamError("this trace doesn't say its tile plan: record the steps of the exact executor")
    plan = plan_for(hidden, ffn, *(int(recorded.provenance[name]) for name in _PLAN))
    spans: list[Span] = []
    base = 0
    for visit in _visits(recorded):
        found = timing(device, plan, steps(plan, sum(span.rows or 0 for span in visit if span.name == "gather")))
        spans += _timed(visit, found, base)
        base += found.span_ns
    mark = max((device.numbers[name].mark for name in RATES), key=list(MARKS).index)
    facts = {"kind": f"steps with modelled times ({mark} rates)", "device": device.name, "machine": device.title}
    return Trace(tuple(spans), {**recorded.provenance, **facts})


def _visits(recorded: Trace) -> Iterator[list[Span]]:
    """The steps of one slot after the other.

    Only where a visit starts do a fetch and a gather share a place: the gather of a later row tile stands behind a
    decode that needs the fetch before it.
    """
    spans = [span for span in recorded.spans if span.clock == "order" and span.unit in set(UNIT_OF.values())]
    fetches = {span.start_ns for span in spans if span.name.startswith("fetch")}
    starts = {span.start_ns for span in spans if span.name == "gather" and span.start_ns in fetches}
    if not spans or spans[0].start_ns not in starts:
        raise EStreamError("this trace holds no steps from their beginning: record those of the exact executor")
    visit: list[Span] = []
    seen = set[int]()
    for span in spans:
        if span.start_ns in starts - seen:
            seen.add(span.start_ns)
            if visit:
                yield visit
            visit = []
        visit.append(span)
    yield visit


def _timed(visit: Sequence[Span], found: Timing, base: int) -> Iterator[Span]:
    """The spans of a visit with the times of the plan's steps, which they are held to."""
    for unit in dict.fromkeys(UNIT_OF.values()):
        mine = [span for span in visit if span.unit == unit]
        own = [each for each in zip(found.steps, found.starts, found.ends, strict=True) if each[0].unit == unit]
        if [_of_span(span) for span in mine] != [_of_step(step) for step, _, _ in own]:
            raise EStreamError(
                "these steps are not those of their tile plan for such experts: give the experts' hidden and FFN size"
            )
        for span, (_, start, end) in zip(mine, own, strict=True):
            yield replace(span, clock="modelled", start_ns=base + start, duration_ns=end - start)


def _of_span(span: Span) -> tuple[str, int, int]:
    return span.name.split(" ")[0], -1 if span.tile is None else span.tile, span.rows or 0


def _of_step(step: Step) -> tuple[str, int, int]:
    return step.kind, step.panel, step.rows
