"""The rivals explorer: a budget and what the rivals' texts don't say, and who is where then."""

from dataclasses import replace

from estream_lab.simulate.rivals import ChunkPadding, Contest, Contestant, Contexts, NpuMoe, Outcome
from estream_lab.tuning.compare import Comparison, Options, contestants
from estream_lab.tuning.plans import plans_of
from estream_lab.viz.explore.base import Explorer, Picture, stepped
from estream_lab.viz.figures.rivals import rival_marks
from estream_lab.viz.figures.theme import mebibytes

BUDGETS_MIB = (800, 900, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 16384, 32768)
SETUPS_MS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 54.0)
CHUNKS = (1, 16, 32, 64, 128, 256, 512)
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


class RivalExplorer(Explorer):
    """Budget, context set-up, chunk and quantile: every contestant's time and memory, those over the budget hollow.

    A contestant that a control doesn't change isn't simulated again.
    """

    busy = "simulating …"

    def __init__(self, contest: Contest, *, setup_ms: float = 16.0, chunk: int = 256, quantile: float = 0.9) -> None:
        self.contest = contest
        self.ran: dict[Contestant, Outcome] = {}
        super().__init__(
            {
                "budget_mib": stepped("budget MiB", BUDGETS_MIB, round(contest.budget_bytes / 2**20)),
                "setup_ms": stepped("set-up ms", SETUPS_MS, setup_ms),
                "chunk": stepped("chunk rows", CHUNKS, chunk),
                "quantile": stepped("quantile p", QUANTILES, quantile),
            }
        )

    def picture(self, *, budget_mib: int, setup_ms: float, chunk: int, quantile: float) -> Picture:
        """All contestants under these values."""
        contest = replace(self.contest, budget_bytes=budget_mib << 20)
        plans = plans_of(contest)
        options: Options = {
            Contexts: {"setup_seconds": setup_ms / 1e3},
            ChunkPadding: {"rows": chunk},
            NpuMoe: {"quantile": quantile},
        }
        entries = tuple(self._outcome(each, contest) for each in contestants(*plans, options))
        found = Comparison(contest, plans, entries)
        inside = [outcome for outcome in entries if not outcome.over_budget]
        text = f"none fits {mebibytes(contest.budget_bytes)}"
        if inside:
            best = min(inside, key=lambda outcome: outcome.seconds)
            text = (
                f"within {mebibytes(contest.budget_bytes)}, {best.contestant} is the fastest: {best.seconds:.3f} s in "
                f"{mebibytes(best.peak_bytes)}; {len(entries) - len(inside)} of {len(entries)} are over the budget"
            )
        settings = f"context set-up {setup_ms:g} ms · chunks of {chunk} rows · p={quantile:g}"
        return Picture(rival_marks(found.outcomes, contest.budget_bytes, found.provenance), text, settings)

    def _outcome(self, contestant: Contestant, contest: Contest) -> Outcome:
        """Time and memory don't depend on the budget, only whether they fit."""
        if contestant not in self.ran:
            self.ran[contestant] = contestant.run(contest)
        return replace(self.ran[contestant], budget_bytes=contest.budget_bytes)
