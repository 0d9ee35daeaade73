"""The max-plus recurrence over whole grids (paper section 6): service times in, summed times or the best out.

`simulate.recurrence` is the same model in plain Python: one layer, every a, d, s and f.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.schedule import policy
from estream_lab.tuning.layers import sum_layers


@dataclass(frozen=True, eq=False)
class LayerGrid:
    """Service times in ns of the groups of all sparse layers, at one group size. Arrays are copied.

    Attributes:
        offsets: (layers + 1,) int64; the groups of layer w, in visit order, are offsets[w] to offsets[w + 1]. A layer
            may have none.
        reads: (depths, groups) float64, L_k; row q - 1 for queue depth q.
        runs: (groups,) float64, X_k; 0 for a group without routes.
        non_expert: (layers,) float64, T^ne.
        routed: (groups,) bool, whether a group has routes; by default all have. One that hasn't is skipped, unless its
            read starts before T^ne is over, in the early schedule: then it is speculative.
        bank_ns: what each bank costs a request beside; the recurrence knows nothing of it, finer models add it.

    Raises:
        EStreamError: shapes that don't fit together, a time that is negative or no number, or one of an execution
            without routes.
    """

    offsets: NDArray[np.int64]
    reads: NDArray[np.float64]
    runs: NDArray[np.float64]
    non_expert: NDArray[np.float64]
    routed: NDArray[np.bool_] = None  # type: ignore[assignment]  # only until it is checked
    bank_ns: float = 0.0

    def __post_init__(self) -> None:
        # Copies, since read-only or strided arrays would each have the kernel compiled once more.
        object.__setattr__(self, "offsets", np.array(self.offsets, np.int64, order="C"))
        for name, dimensions in (("reads", 2), ("runs", 1), ("non_expert", 1)):
            times = np.array(getattr(self, name), np.float64, order="C")
            if times.ndim != dimensions:
                raise EStreamError(f"{name} has {times.ndim} dimensions: give an array of {dimensions}")
            if not (np.isfinite(times) & (times >= 0)).all():
                raise EStreamError(f"{name} holds a time that is negative or no number: give finite times of 0 or more")
            object.__setattr__(self, name, times)
        if not len(self.reads) or self.reads.shape[1] != len(self.runs):
            raise EStreamError(
                f"reads of shape {self.reads.shape} don't fit {len(self.runs)} executions: "
                "give a row for each queue depth and a column for each execution"
            )
        all_have = self.routed is None
        routed = np.ones(len(self.runs), np.bool_) if all_have else np.array(self.routed, np.bool_, order="C")
        object.__setattr__(self, "routed", routed)
        if routed.shape != self.runs.shape or self.runs[~routed].any():
            raise EStreamError(
                f"routed of shape {routed.shape} doesn't fit {len(self.runs)} executions: give one of each a group, "
                "and 0 for executions without routes"
            )
        layers, groups = len(self.non_expert), len(self.runs)
        ends = (0, groups) if layers else (0, 0)
        fits = self.offsets.shape == (layers + 1,) and (self.offsets[0], self.offsets[-1]) == ends
        if not fits or (np.diff(self.offsets) < 0).any():
            raise EStreamError(f"offsets don't divide {groups} groups among {layers} layers: let them rise from 0")

    @property
    def needed(self) -> Self:
        """The same without the groups that have no routes."""
        upto = np.concatenate([[0], self.routed.cumsum()])
        kept = self.routed
        return replace(
            self, offsets=upto[self.offsets], reads=self.reads[:, kept], runs=self.runs[kept], routed=kept[kept]
        )

    @classmethod
    def of(
        cls,
        reads: Sequence[ArrayLike],
        runs: Sequence[ArrayLike],
        non_expert: ArrayLike,
        routed: Sequence[ArrayLike] | None = None,
    ) -> Self:
        """From the times of each layer: ``reads`` (depths, K_w), ``runs`` (K_w,), and one of ``non_expert``.

        ``routed`` (K_w,) of each layer; by default all groups have routes.

        Raises:
            EStreamError: as the class, or layers that disagree on how many groups or depths there are.
        """
        read = [np.asarray(layer, np.float64) for layer in reads]
        run = [np.asarray(layer, np.float64) for layer in runs]
        depths = {len(layer) if layer.ndim == 2 else 0 for layer in read}
        if len(depths) != 1 or [layer.shape[1:] for layer in read] != [layer.shape for layer in run]:
            raise EStreamError(
                "reads and executions don't match layer for layer: give each layer reads of (depths, groups) and "
                "executions of (groups,)"
            )
        offsets = np.cumsum([0, *map(len, run)])
        times = np.concatenate(read, axis=1), np.concatenate(run), np.asarray(non_expert, np.float64)
        return cls(offsets, *times) if routed is None else cls(offsets, *times, np.concatenate(routed))


Times = Callable[[LayerGrid, int, int], NDArray[np.float64]]


@dataclass(frozen=True)
class Candidate:
    """A group size to choose from.

    Attributes:
        group_size: g. bank_bytes: of one bank, g · W_e. banks: B_max(g), at least 1. grid: its service times.
    """

    group_size: int
    bank_bytes: int
    banks: int
    grid: LayerGrid


@dataclass(frozen=True)
class Choice:
    """The best configuration: G*, Q, B*, its summed T_pipe in ns, and the bytes of its arena."""

    group_size: int
    queue_depth: int
    banks: int
    pipe_ns: float
    arena_bytes: int


def pipe_times(grid: LayerGrid, banks: int, queue_depth: int, schedule: str = "early") -> NDArray[np.float64]:
    """T_pipe in ns, summed over the layers in order, with 1, 2, … ``banks`` banks: (banks,) float64.

    More queue places than banks never help: with b banks q is min(``queue_depth``, b), and L_k is that depth's. A layer
    without scheduled groups takes T^ne. A speculative group counts as one with X = 0; there are at most b in a layer.

    Raises:
        EStreamError: no such schedule, no banks, or a depth that the grid has no reads for.
    """
    name = policy(schedule).name
    check_request(grid, banks, queue_depth)
    times = np.zeros(banks)
    waits, on_demand = name != "early", name == "on-demand"
    depth = int(queue_depth)  # an integer of NumPy's would have the kernel compiled once more
    sum_layers(grid.offsets, grid.reads, grid.runs, grid.routed, grid.non_expert, depth, waits, on_demand, times)
    return times


def check_request(grid: LayerGrid, banks: int, queue_depth: int) -> None:
    """Refuse what a grid has no times for.

    Raises:
        EStreamError: no banks, or a depth that the grid has no reads for.
    """
    if banks < 1:
        raise EStreamError(f"{banks} banks hold no group: give at least 1")
    if not 1 <= queue_depth <= len(grid.reads):
        raise EStreamError(
            f"there are no read times for queue depth {queue_depth}: choose one from 1 to {len(grid.reads)}"
        )


def best(candidates: Sequence[Candidate], queue_depth: int, times_of: Times = pipe_times) -> Choice:
    """The fastest of all group sizes and bank counts; equally fast, that of fewer banks, smaller arena, smaller group.

    ``times_of`` is the model: T_pipe of a grid, with 1, 2, … banks at a depth.

    Raises:
        EStreamError: as `pipe_times`, or nothing to choose from.
    """
    if not candidates:
        raise EStreamError("there is no group size to choose from: give one whose bank fits the budget")
    choices: list[Choice] = []
    for candidate in candidates:
        times = times_of(candidate.grid, candidate.banks, queue_depth)
        banks = int(times.argmin()) + 1  # the first of equals: the fewest banks
        arena_bytes = banks * candidate.bank_bytes
        depth = min(queue_depth, banks)
        choices.append(Choice(candidate.group_size, depth, banks, float(times[banks - 1]), arena_bytes))
    return min(choices, key=lambda choice: (choice.pipe_ns, choice.banks, choice.arena_bytes, choice.group_size))
