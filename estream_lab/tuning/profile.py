"""Service profiles: what calibration measured on one computer with one store, pooled as in the paper (section 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import linear_regression, median

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.tuning.calibration import Calibration
from estream_lab.tuning.maxplus import LayerGrid
from estream_lab.tuning.pooling import pooled
from estream_lab.tuning.service import ServiceModel

ABOUT = 0.9  # reads start and end some microseconds late


@dataclass(frozen=True)
class Origin:
    """Where a profile was measured, and with what; one of another store or machine is of no use.

    Attributes:
        machine: the processor's name. store_checksum: of the manifest. date: when, UTC, ISO 8601.
        model: the checkpoint's name. prompt: a file's name, or what else the tokens were. tokens: T.
        threads: of the kernels. numerics_profile: of the executor.
        read_bandwidth: the declared limit in bytes/s, 0 for none. direct_io: whether reads bypassed the page cache.
    """

    machine: str
    store_checksum: str
    date: str
    model: str
    prompt: str
    tokens: int
    threads: int
    numerics_profile: str
    read_bandwidth: float
    direct_io: bool


@dataclass(frozen=True)
class Profile:
    """Samples of every candidate g and queue depth, and what the configuration model takes out of them.

    Loading samples are pooled within a g and depth, in ns a byte, of reads that had the queue full: L_k at depth q is q
    times what storage takes for the group's bytes, as it is where reads share the bandwidth evenly. (Where storage ends
    one read before it begins the next, half of the samples themselves would be too short.) Non-expert times are pooled
    across g, executions within a g. Requests of one pool did the same work, and what else a computer does meanwhile can
    only lengthen it: the median of the faster half of them counts. (A request that was disturbed as a whole would else
    make its g look slow beside the others.) What banks cost is the slope, over the banks of the requests, of what these
    take outside of their layers' recurrences.

    Attributes:
        origin: see `Origin`.
        routes: of each layer, how many each expert got, in the store's order: (layers, E).
        record_bytes: of each layer, what a record takes in a read. slot_bytes: W_e, what it takes in the arena.
        other_bytes: M_other, of the smallest g. measured_other_bytes: the part of it that was seen.
        runs: the samples, a request each; of every g at every depth that it has groups for.
        service: X of other route counts.
    """

    origin: Origin
    routes: tuple[tuple[int, ...], ...]
    record_bytes: tuple[int, ...]
    slot_bytes: int
    other_bytes: int
    measured_other_bytes: int
    runs: tuple[Calibration, ...]
    service: ServiceModel

    @property
    def experts(self) -> int:
        """E."""
        return len(self.routes[0])

    @cached_property
    def group_sizes(self) -> tuple[int, ...]:
        """The candidates g, ascending."""
        return tuple(sorted({run.group_size for run in self.runs}))

    @cached_property
    def queue_depths(self) -> tuple[int, ...]:
        """The depths that were measured, ascending."""
        return tuple(sorted({run.queue_depth for run in self.runs}))

    @property
    def rounds(self) -> int:
        """Requests of each g and depth; of the one that has the fewest."""
        return min(Counter((run.group_size, run.queue_depth) for run in self.runs).values())

    def groups(self, group_size: int) -> int:
        """ceil(E / g)."""
        return -(-self.experts // group_size)

    def of_size(self, group_size: int) -> tuple[Calibration, ...]:
        """The samples of one g.

        Raises:
            EStreamError: a group size that was not measured.
        """
        found = tuple(run for run in self.runs if run.group_size == group_size)
        if not found:
            sizes = ", ".join(map(str, self.group_sizes))
            raise EStreamError(f"the profile has no groups of {group_size}: choose from {sizes}, or profile them too")
        return found

    def bandwidth(self, group_size: int, queue_depth: int) -> float:
        """Bytes a second of grouped reads with ``queue_depth`` of them under way; of fewer where g leaves no more."""
        depth = self._depth(self.of_size(group_size), queue_depth)
        return 1e9 * depth / _ns_per_byte(self.of_size(group_size), depth)

    def outside_ns(self) -> float:
        """The part of a request that no configuration changes: before, between and after the layers' recurrences.

        The median over all requests: they had different numbers of banks, which cost time outside of the recurrences.
        """
        return float(median(run.outside_ns for run in self.runs))

    @property
    def disturbance(self) -> float:
        """How much longer non-expert work, the same in all requests, took in their median than in the fastest."""
        totals = [sum(run.non_expert_ns) for run in self.runs]
        return median(totals) / min(totals) - 1

    @cached_property
    def bank_ns(self) -> float:
        """What one bank more adds to a request, whatever is read into it, by least squares; 0 where all requests had as
        many banks, or those with more took less.
        """
        banks = [float(run.banks) for run in self.runs]
        if len(set(banks)) == 1:
            return 0.0
        return max(0.0, linear_regression(banks, [float(run.outside_ns) for run in self.runs]).slope)

    def without_banks_ns(self) -> float:
        """`outside_ns`, less what the banks of each run cost."""
        return float(pooled([run.outside_ns - self.bank_ns * run.banks for run in self.runs]))

    def grid(
        self,
        group_size: int,
        routes: NDArray[np.int64] | None = None,
        runs: Sequence[Calibration] | None = None,
    ) -> LayerGrid:
        """The service times of one g, in visit order.

        Args:
            group_size: g.
            routes: of another prompt: (layers, E) in the store's order; executions then come from the service model.
            runs: samples of that g to take L, X and T^ne from instead of all, as far as they have them.

        Raises:
            EStreamError: a group size that was not measured, or routes of another shape.
        """
        everything = self.of_size(group_size)
        asked = np.array(self.routes) if routes is None else routes
        shape = (len(self.routes), self.experts)
        if asked.shape != shape:
            raise EStreamError(
                f"routes of shape {asked.shape} are not of this profile's {shape[0]} layers of {shape[1]}"
            )
        loads = self._grouped(asked, group_size)  # (layers, K, g)
        needed = loads.sum(axis=2) > 0  # (layers, K)
        rates = [self._rate(everything, runs, depth) for depth in range(1, self.queue_depths[-1] + 1)]
        reads = np.array(rates)[:, None, None] * self._read_bytes(group_size)  # (depths, layers, K)
        if routes is None:
            executions = self._executions(everything if runs is None else runs, needed)
        else:
            executions = np.stack([self.service.predict(layer) for layer in loads])
        grid = LayerGrid.of(
            [reads[:, layer] for layer in range(len(needed))],
            list(executions),
            pooled([run.non_expert_ns for run in (self.runs if runs is None else runs)]),
            list(needed),
        )
        return replace(grid, bank_ns=self.bank_ns)

    def _grouped(self, routes: NDArray[np.int64], group_size: int) -> NDArray[np.int64]:
        """(layers, E) as (layers, K, g); a last group's missing experts have no routes."""
        missing = self.groups(group_size) * group_size - self.experts
        return np.pad(routes, ((0, 0), (0, missing))).reshape(len(routes), -1, group_size)

    def _read_bytes(self, group_size: int) -> NDArray[np.int64]:
        """(layers, K)."""
        first = np.arange(self.groups(group_size)) * group_size
        return np.outer(self.record_bytes, np.minimum(group_size, self.experts - first))

    def _depth(self, runs: Sequence[Calibration], queue_depth: int) -> int:
        """The depth that ``queue_depth`` means for samples in which fewer reads can be under way."""
        return max(run.queue_depth for run in runs if run.queue_depth <= queue_depth)

    def _rate(self, everything: Sequence[Calibration], runs: Sequence[Calibration] | None, queue_depth: int) -> float:
        """ns a byte of a read among ``queue_depth``: of ``runs`` where they have that depth, else of all samples."""
        depth = self._depth(everything, queue_depth)
        chosen = [run for run in runs or everything if run.queue_depth == depth]
        return _ns_per_byte(chosen or everything, depth)

    def _executions(self, runs: Sequence[Calibration], needed: NDArray[np.bool_]) -> NDArray[np.float64]:
        """X in ns: (layers, K), 0 for groups without routes."""
        found = np.zeros((len(runs), *needed.shape))
        for i, run in enumerate(runs):
            layer, group, times = np.array(run.executions).T
            found[i, layer, group] = times
        return pooled(found)


def _ns_per_byte(runs: Sequence[Calibration], depth: int) -> float:
    """L / bytes at this depth, of the requests that ran with it."""
    return depth * float(pooled([_storage_ns_per_byte(run) for run in runs if run.queue_depth == depth]))


def _storage_ns_per_byte(run: Calibration) -> float:
    """Of reads that had the queue full, or of all where none had."""
    last = (run.queue_depth + 1) / 2  # reads beside the last one of a full queue, where they are served in turn
    full = [read for read in run.loadings if read.outstanding >= ABOUT * last] or run.loadings
    return sum(read.own_ns for read in full) / sum(read.bytes for read in full)
