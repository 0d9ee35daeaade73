"""Groups streamed through an arena of banks: EStream under its three schedules (paper section 5)."""

from dataclasses import dataclass

from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.rivals.outcome import Outcome, streamed
from estream_lab.simulate.rivals.rows import exact
from estream_lab.simulate.soc import Settings, simulate


@dataclass(frozen=True)
class EStream:
    """EStream (paper sections 2 to 5): groups of G experts in B banks, exact compaction, nothing dropped.

    Attributes:
        settings: G, B, Q and the schedule. Whoever enters it chooses them for the budget.
        planner: who chose them, where that is worth a word.
    """

    settings: Settings
    planner: str = ""

    @property
    def name(self) -> str:
        """With its schedule, and its planner."""
        over = ", carried over" * self.settings.carry_over
        return f"EStream {self.settings.schedule}{over}{f', {self.planner} plan' if self.planner else ''}"

    def run(self, contest: Contest) -> Outcome:
        """See `Contestant`."""
        found = simulate(contest.device, contest.workload, self.settings)
        return streamed(self.name, words(found.settings), contest, found, exact(contest))


def words(settings: Settings) -> str:
    """G, B and Q."""
    return f"G={settings.group_size} B={settings.banks} Q={settings.queue_depth}"
