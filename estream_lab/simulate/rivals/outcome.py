"""What a contestant comes to, or why it doesn't run."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from estream_lab.routing.padding import RowCost
from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.soc import Simulation, provenance


@dataclass(frozen=True)
class Outcome:
    """A simulated request of one contestant.

    Attributes:
        contestant: its name. settings: how it ran, in words.
        kind: "simulated", with the mark and the scope of the device's profile.
        seconds: request time.
        peak_bytes: resident at most, budget_bytes: M_max.
        bytes_read: during the request. preload_bytes: read before it began, which takes no part in ``seconds``.
        rows: of all layers: routes, rows computed with padding, routes dropped.
        saliency_dropped: share of Σ |α| · ‖x‖ that dropped routes bore.
        assumed: what no source says and an option decides, in words.
    """

    contestant: str
    settings: str
    kind: str
    seconds: float
    peak_bytes: int
    budget_bytes: int
    bytes_read: int
    rows: RowCost
    preload_bytes: int = 0
    saliency_dropped: float = 0.0
    assumed: tuple[str, ...] = ()

    @property
    def over_budget(self) -> bool:
        """Whether it takes more memory than there is."""
        return self.peak_bytes > self.budget_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self) | {
            "rows": {**asdict(self.rows), "kept": self.rows.kept, "padding": self.rows.padding},
            "assumed": list(self.assumed),
            "over_budget": self.over_budget,
        }


@dataclass(frozen=True)
class Refused:
    """A contestant that the budget keeps out: its name, the memory it needs, and the sentence that says so."""

    contestant: str
    peak_bytes: int
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {"contestant": self.contestant, "peak_bytes": self.peak_bytes, "refused": self.sentence}


class Contestant(Protocol):
    """A way to run a request. Its options are its fields, each with a default that its docstring accounts for."""

    @property
    def name(self) -> str:
        """In tables and messages."""
        ...

    def run(self, contest: Contest) -> Outcome:
        """Simulate the request, within the budget or not.

        Raises:
            EStreamError: an option that means nothing.
        """
        ...


def kind(contest: Contest, group_size: int) -> str:
    """What every outcome is: "simulated", how sure, and whether the profile was made for groups of that size."""
    return str(provenance(contest.device, contest.workload, group_size)["kind"])


def streamed(
    contestant: str, words: str, contest: Contest, found: Simulation, rows: RowCost, assumed: tuple[str, ...] = ()
) -> Outcome:
    """Of a contestant that is one `Simulation`; ``rows`` are those of the contest's own routes."""
    return Outcome(
        contestant, words, kind(contest, found.settings.group_size), found.seconds, found.peak_bytes,
        contest.budget_bytes, found.bytes_read, rows, assumed=assumed,
    )  # fmt: skip


def enter(contestant: Contestant, contest: Contest, *, over_budget: bool = False) -> Outcome | Refused:
    """Run a contestant; one that is over the budget is refused, unless ``over_budget`` lets it run all the same.

    Raises:
        EStreamError: as `Contestant.run`.
    """
    outcome = contestant.run(contest)
    if outcome.over_budget and not over_budget:
        return Refused(outcome.contestant, outcome.peak_bytes, refusal(outcome))
    return outcome


def refusal(outcome: Outcome) -> str:
    """Why it doesn't fit."""
    return (
        f"{outcome.contestant} needs {outcome.peak_bytes} bytes of memory, {outcome.peak_bytes - outcome.budget_bytes} "
        f"more than the budget of {outcome.budget_bytes}: raise the budget, or ask for contestants over it"
    )
