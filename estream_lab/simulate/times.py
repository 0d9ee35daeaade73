"""Service times: how long each read, each execution and each layer's non-expert work takes (paper section 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from estream_lab.errors import EStreamError
from estream_lab.trace import Provenance


@dataclass(frozen=True)
class LayerTimes:
    """One pass through a layer; all times in ns.

    Attributes:
        layer: its number.
        non_expert_ns: T^ne, from the layer's begin until its routes are known.
        reads_ns: L_k of each of its K groups, needed or not, for a read that takes the time it took.
        runs_ns: X_k of the groups with routes; what isn't in it has none.
        read_bytes: of each group, for reads that share a bandwidth.
        rows: routes of each group that has some; may be left out.
        rest_ns: what is left to do after the last expert, before the next layer begins.

    Raises:
        EStreamError: a read or execution below 1 ns, another time below 0, or a needed group that isn't in the layer.
    """

    layer: int
    non_expert_ns: int
    reads_ns: tuple[int, ...]
    runs_ns: Mapping[int, int]
    read_bytes: tuple[int, ...] = ()
    rows: Mapping[int, int] = field(default_factory=dict)
    rest_ns: int = 0

    def __post_init__(self) -> None:
        if min((*self.reads_ns, *self.runs_ns.values()), default=1) < 1 or min(self.non_expert_ns, self.rest_ns) < 0:
            raise EStreamError(
                f"layer {self.layer} has a service time that is no time: reads and runs take 1 ns or more"
            )
        strange = sorted(set(self.runs_ns) - set(range(len(self.reads_ns))))
        if strange:
            raise EStreamError(f"layer {self.layer} runs group {strange[0]}, but has {len(self.reads_ns)} groups")

    @property
    def needed(self) -> tuple[int, ...]:
        """The groups with routes, in visit order."""
        return tuple(sorted(self.runs_ns))


@dataclass(frozen=True)
class ServiceTimes:
    """A request: its passes through the layers in order, what comes before and after them, and whence all that is.

    Attributes:
        passes: of every layer, of each chunk of the prompt.
        lead_ns, tail_ns: before the first layer begins (embedding), and after the last (head).
        provenance: of the trace that the times were taken from; empty for times made up.
    """

    passes: tuple[LayerTimes, ...]
    lead_ns: int = 0
    tail_ns: int = 0
    provenance: Provenance = field(default_factory=dict)


def by_hand(
    reads: Sequence[int], runs: Sequence[int], non_expert: int, needed: Sequence[int] | None = None
) -> ServiceTimes:
    """One layer with times made up: L_k and X_k of its groups and T^ne, in any unit (shown as ns).

    With ``needed``, ``runs`` are these groups' times, and the others have no routes.
    """
    groups = range(len(reads)) if needed is None else needed
    return ServiceTimes((LayerTimes(0, non_expert, tuple(reads), dict(zip(groups, runs, strict=True))),))
