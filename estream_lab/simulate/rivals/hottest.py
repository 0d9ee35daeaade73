"""EStream's pipeline with the most popular experts first."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.rivals.outcome import Outcome, streamed
from estream_lab.simulate.rivals.rows import exact
from estream_lab.simulate.rivals.streaming import words
from estream_lab.simulate.soc import Settings, simulate

Unit = Literal["expert", "group"]


@dataclass(frozen=True)
class HottestFirst:
    """The early schedule in a store whose experts lie by popularity, which the calibration requests tell.

    Source: the order by popularity that offloading systems cache and prefetch by, such as MoE-Infinity (Xue et al.,
    arXiv 2401.14361); here it decides the visit order alone.

    Attributes:
        settings: G, B, Q and the schedule.
        unit: "expert" sorts the experts, so that popular ones share groups; "group" sorts the groups of a store by id
            and leaves their members together, the last one, if it is smaller, at the end.
    """

    settings: Settings
    name: str = "hottest first"
    unit: Unit = "expert"

    def run(self, contest: Contest) -> Outcome:
        """See `Contestant`."""
        if self.unit not in get_args(Unit):
            raise EStreamError(f"{self.name} can't sort by '{self.unit}': choose expert or group")
        popular = contest.calibration.sum(axis=0)  # (layers, E)
        size = 1 if self.unit == "expert" else self.settings.group_size
        ordered = contest.workload.in_order([hottest(loads, size) for loads in popular])
        found = simulate(contest.device, ordered, self.settings)
        by = f"by {self.unit}"
        return streamed(self.name, f"{words(found.settings)}, {by}", contest, found, exact(contest), (by,))


def hottest(loads: NDArray[np.int64], size: int) -> NDArray[np.int32]:
    """Experts in runs of ``size`` neighbours, runs by falling load, ties by id, a shorter last one last: int32 (E,).

    Args:
        loads: (E,).
    """
    experts = np.arange(len(loads), dtype=np.int32)
    whole = len(loads) // size * size
    runs = experts[:whole].reshape(-1, size)
    order = np.argsort(-loads[runs].sum(axis=1), kind="stable")
    return np.concatenate([runs[order].reshape(-1), experts[whole:]])
