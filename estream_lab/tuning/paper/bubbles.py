"""The paper's figure of bubbles: idle shares of storage and NPU under the three schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from estream_lab.errors import EStreamError
from estream_lab.experts.schedule import POLICIES
from estream_lab.simulate.device import Device
from estream_lab.simulate.fit import BUBBLE_BANKS, workload
from estream_lab.simulate.soc import Settings, Simulation, simulate
from estream_lab.trace import Trace, npu_idle, storage_idle, union_ns
from estream_lab.tuning.paper.marks import MEASURED, Mark, published_mark, simulated_kind

STORAGE, NPU = "storage idle", "NPU idle"
PUBLISHED_RATES = {
    "on-demand": "bubble_on_demand",
    "after-routing": "bubble_after_routing",
    "early": "bubble_early",
}
GROUP_SIZE, QUEUE_DEPTH = 8, 2
BANKS = (BUBBLE_BANKS, 3)
"""What the published rates may have been taken with: it isn't printed. The profile was fitted with the first."""


def simulated(device: Device) -> dict[str, Simulation]:
    """OLMoE at 1,024 tokens under each schedule, with either number of banks."""
    asked = workload()
    return {
        f"{schedule}, B={banks}": simulate(device, asked, Settings(GROUP_SIZE, banks, QUEUE_DEPTH, schedule))
        for banks in BANKS
        for schedule in PUBLISHED_RATES
    }


def simulated_marks(found: Mapping[str, Simulation]) -> list[Mark]:
    """Both idle shares, and beside each the published rate: which of them it is, the paper doesn't say."""
    marks = []
    for label, run in found.items():
        kind = simulated_kind(run.device, run.workload, run.settings.group_size)
        for quantity, share in ((STORAGE, run.storage_idle), (NPU, run.npu_idle)):
            marks.append(Mark(label, quantity, 100 * share, "%", kind))
            marks.append(published_mark(PUBLISHED_RATES[run.settings.schedule], label, quantity))
    return marks


def distances(marks: Sequence[Mark]) -> dict[str, float]:
    """How many points the simulated rates with the fit's banks are from the published ones, in the mean, if a bubble is
    idle storage, and if it is an idle NPU."""
    found = {}
    for quantity in (STORAGE, NPU):
        mine = [mark for mark in marks if mark.quantity == quantity and mark.of.endswith(f"B={BUBBLE_BANKS}")]
        pairs = zip(mine[::2], mine[1::2], strict=True)  # ours and the published one, of each schedule
        found[quantity] = sum(abs(ours.value - theirs.value) for ours, theirs in pairs) / len(PUBLISHED_RATES)
    return found


def measured_marks(traces: Mapping[str, Trace], model: str) -> list[Mark]:
    """Both idle shares of requests that ran here, one for each schedule."""
    return [
        Mark(f"{model}, {schedule}", quantity, 100 * share(trace), "%", MEASURED)
        for schedule, trace in traces.items()
        for quantity, share in ((STORAGE, storage_idle), (NPU, npu_idle))
    ]


def check_schedules(traces: Mapping[str, Trace]) -> None:
    """Hold measured requests to what makes their schedules, whatever the computer's speed.

    On demand nothing is read while anything is computed; after routing nothing while non-expert work goes on; early,
    reads begin with that work. All three need the same groups.

    Raises:
        EStreamError: a schedule that isn't there, or did something else.
    """
    if missing := sorted(set(POLICIES) - set(traces)):
        raise EStreamError(f"there is no request under '{missing[0]}': measure all three schedules")
    for schedule, units in (("on-demand", ("dense", "expert")), ("after-routing", ("dense",))):
        for unit in units:
            if together := overlap_ns(traces[schedule], unit):
                raise EStreamError(
                    f"under '{schedule}' {together} ns of reads fall into {unit} work: that is no such schedule"
                )
    if not overlap_ns(traces["early"], "dense"):
        raise EStreamError("under 'early' nothing was read during non-expert work: that is no early schedule")
    needed = {name: sorted({(s.layer, s.group) for s in trace.select("expert")}) for name, trace in traces.items()}
    if odd := [name for name in needed if needed[name] != needed["early"]]:
        raise EStreamError(f"'{odd[0]}' and 'early' ran different groups, so they had different routes")


def overlap_ns(trace: Trace, unit: str) -> int:
    """For how long reads and work of a unit were under way together."""
    reads, work = ([(span.start_ns, span.end_ns) for span in trace.select(each)] for each in ("storage", unit))
    return union_ns(reads) + union_ns(work) - union_ns([*reads, *work])
