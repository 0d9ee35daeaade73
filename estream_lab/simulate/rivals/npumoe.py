"""An NPUMoE-like contestant: static graphs with capacity tiers, overflow dropped, cold groups on the CPU."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from estream_lab.errors import EStreamError
from estream_lab.routing.padding import RowCost
from estream_lab.simulate.published import published
from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.rivals.outcome import Outcome, kind
from estream_lab.simulate.rivals.tiers import groups_of, kept_routes, saliency, tiers_of
from estream_lab.simulate.soc import other_bytes, service_times_of

CAPACITIES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Powers of two from a matrix unit's 32 rows up; assumed."""


@dataclass(frozen=True)
class NpuMoe:
    """Capacity tiers from calibration, experts of a tier fused into one graph, routes beyond it dropped by saliency.

    Source: Benazir and Lin, "Efficient Mixture-of-Experts LLM Inference with Apple Silicon NPUs" (arXiv 2604.18788).
    Tiers, quantiles, group sizes and thresholds aren't public, so this is a model *like* it. All experts are in memory,
    as its "compute graph residency" has it, and are read beforehand. Tiers hold for cold groups too: else a larger
    quantile, which regroups experts, could drop more routes.

    Attributes:
        quantile: p of each expert's load over the calibration requests; 0.9 is assumed.
        capacities: the tiers, rising; assumed, see `CAPACITIES`.
        group_size: experts of one graph; 8 is assumed, EStream's usual.
        theta: a group is hot if the rows of its mean load take as long as ``theta`` dispatches; 1 is assumed.
        dispatch_seconds: of one graph. By default what the device takes for a group, as for every contestant; on the
            Apple Neural Engine 80 to 110 µs were measured (documentation of ANEForge).
        cpu_slowdown: how much longer a row takes on the CPU; by default what the paper printed for 64 routes.
        overlap: NPU and CPU work at the same time; assumed.
    """

    name: str = "NPUMoE-like"
    quantile: float = 0.9
    capacities: tuple[int, ...] = CAPACITIES
    group_size: int = 8
    theta: float = 1.0
    dispatch_seconds: float | None = None
    cpu_slowdown: float | None = None
    overlap: bool = True

    def run(self, contest: Contest) -> Outcome:
        """See `Contestant`."""
        self._check()
        device, workload = contest.device, contest.workload
        times = service_times_of(device, workload, workload.model.experts, 1)
        total = (times.lead_ns + times.tail_ns + sum(layer.non_expert_ns for layer in times.passes)) / 1e9
        layers = [self._layer(contest, layer) for layer in range(workload.model.layers)]
        whole = _Layer(*map(sum, zip(*map(astuple, layers), strict=True)))
        return Outcome(
            self.name, f"p={self.quantile:g}, {whole.hot} of {whole.groups} graphs hot",
            kind(contest, workload.model.experts), total + whole.seconds,
            other_bytes(device, workload) + contest.store_bytes, contest.budget_bytes, 0,
            RowCost(contest.routed, whole.rows, whole.dropped), contest.store_bytes,
            whole.lost / whole.saliency if whole.saliency else 0.0, self._assumed(contest),
        )  # fmt: skip

    def _layer(self, contest: Contest, layer: int) -> "_Layer":
        loads, routes, norms = contest.calibration[:, layer], contest.routes[layer], contest.norms[layer]
        tiers, popularity = tiers_of(loads, self.capacities, self.quantile), loads.mean(axis=0)  # (E,)
        kept, weight = kept_routes(routes, tiers, norms), saliency(routes, norms)  # (R,)
        filled = np.bincount(routes.expert[kept], minlength=len(tiers))  # (E,)
        row, dispatch = self._row_seconds(contest), self._dispatch(contest)
        groups = groups_of(tiers, popularity, self.group_size)
        hot = [group for group in groups if popularity[group.experts].sum() * row >= self.theta * dispatch]
        on_npu = sum(group.rows for group in hot)
        on_cpu = int(filled.sum() - sum(filled[group.experts].sum() for group in hot))
        npu = len(hot) * dispatch + on_npu * row
        cpu = on_cpu * row * self._slowdown()
        return _Layer(
            max(npu, cpu) if self.overlap else npu + cpu, on_npu + on_cpu, int((~kept).sum()), len(hot), len(groups),
            float(weight[~kept].sum()), float(weight.sum()),
        )  # fmt: skip

    def _row_seconds(self, contest: Contest) -> float:
        return contest.workload.model.route_flops / contest.device["expert_rate"]

    def _dispatch(self, contest: Contest) -> float:
        own = self.dispatch_seconds
        return contest.device["group_overhead"] / 1e9 if own is None else own

    def _slowdown(self) -> float:
        return published()["npu_over_cpu"].value if self.cpu_slowdown is None else self.cpu_slowdown

    def _assumed(self, contest: Contest) -> tuple[str, ...]:
        return (
            f"quantile {self.quantile:g}",
            f"tiers {', '.join(map(str, self.capacities))}",
            f"{self.group_size} experts a graph",
            f"theta {self.theta:g}",
            f"dispatch {1e6 * self._dispatch(contest):g} µs",
            f"CPU rows {self._slowdown():g} times as long",
            "NPU and CPU at the same time" if self.overlap else "NPU and CPU in turn",
        )

    def _check(self) -> None:
        """Raises: EStreamError for options that mean nothing."""
        wrong = ""
        if not 0 <= self.quantile <= 1:
            wrong = f"a quantile of {self.quantile:g}: give 0 to 1"
        elif not self.capacities or list(self.capacities) != sorted(set(self.capacities)) or self.capacities[0] < 1:
            wrong = f"tiers of {', '.join(map(str, self.capacities)) or 'no'} rows: give rising numbers from 1 on"
        elif self.group_size < 1:
            wrong = f"graphs of {self.group_size} experts: give at least 1"
        for option in ("theta", "dispatch_seconds", "cpu_slowdown"):
            value = getattr(self, option)
            if not wrong and value is not None and not 0 <= value < float("inf"):
                wrong = f"{option} {value:g}: give 0 or more"
        if wrong:
            raise EStreamError(f"{self.name} can't run with {wrong}")


def by_quantile(contest: Contest, contestant: NpuMoe, quantiles: Sequence[float]) -> dict[float, Outcome]:
    """The contestant once for each quantile p.

    Raises:
        EStreamError: as `NpuMoe.run`.
    """
    return {quantile: replace(contestant, quantile=quantile).run(contest) for quantile in quantiles}


@dataclass(frozen=True)
class _Layer:
    """A layer's experts: their time, rows computed, routes dropped, hot groups of all, and the saliency lost of all."""

    seconds: float
    rows: int
    dropped: int
    hot: int
    groups: int
    lost: float
    saliency: float
