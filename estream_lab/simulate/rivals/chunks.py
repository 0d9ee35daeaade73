"""Static graphs for a fixed number of rows: every expert's rows are padded to the chunk."""

from dataclasses import dataclass, replace

from estream_lab.errors import EStreamError
from estream_lab.routing.padding import RowCost
from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.rivals.outcome import Outcome, streamed
from estream_lab.simulate.rivals.rows import in_chunks, in_prompt_chunks
from estream_lab.simulate.rivals.streaming import words
from estream_lab.simulate.soc import Settings, simulate


@dataclass(frozen=True)
class ChunkPadding:
    """EStream's pipeline with graphs of ``rows`` rows: what padding alone costs. An expert without routes runs none.

    Source: the fixed-length chunks of llm.npu (Xu et al., arXiv 2407.05858), which is about dense models: how experts
    would be padded is not in it, hence the options.

    Attributes:
        settings: G, B, Q and the schedule.
        rows: of the chunk; 256 is assumed. mllm's QNN backend has run with 32 (its news of 29 January 2026).
        per_prompt_chunk: pad the routes of each ``rows`` tokens by themselves, as a prompt that runs in chunks would.
            By default an expert's routes of the whole prompt are padded together, which takes fewer rows.
    """

    settings: Settings
    name: str = "chunk padding"
    rows: int = 256
    per_prompt_chunk: bool = False

    def run(self, contest: Contest) -> Outcome:
        """See `Contestant`."""
        if self.rows < 1:
            raise EStreamError(f"{self.name} can't run in chunks of {self.rows} rows: give at least 1")
        padded = (in_prompt_chunks if self.per_prompt_chunk else in_chunks)(contest, self.rows)
        found = simulate(contest.device, replace(contest.workload, loads=padded), self.settings)
        chunk = f"chunks of {self.rows} {'tokens' if self.per_prompt_chunk else 'rows'}"
        rows = RowCost(contest.routed, int(padded.sum()))
        return streamed(self.name, f"{words(found.settings)}, {chunk}", contest, found, rows, (chunk,))
