"""Experts read one at a time, when the executor stands before them."""

from dataclasses import dataclass

from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.rivals.outcome import Outcome, streamed
from estream_lab.simulate.rivals.rows import exact
from estream_lab.simulate.rivals.streaming import words
from estream_lab.simulate.soc import Settings, simulate


@dataclass(frozen=True)
class OnDemand:
    """Plain offloading: one expert in memory, read once its turn has come, never ahead; nothing is kept.

    Source: the least that any offloading does; the on-demand schedule (paper section 5) with groups of one expert.
    """

    name: str = "expert on demand"

    def run(self, contest: Contest) -> Outcome:
        """See `Contestant`."""
        found = simulate(contest.device, contest.workload, Settings(1, 1, 1, "on-demand"))
        return streamed(self.name, words(found.settings), contest, found, exact(contest))
