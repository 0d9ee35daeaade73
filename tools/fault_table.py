"""Plant every fault at every phase, under every schedule and over two arenas, and print the outcomes as Markdown.

    python -m tools.fault_table

A cell holds the outcome and how many runs gave it: schedules times arenas. "same bits" is the logits of a run without
faults, over an arena poisoned with NaN; "error" is the one right sentence; "stopped" is a stop on request. In each case
the same engine then gives the same bits. Any other outcome is printed as WRONG, with what happened.
"""

import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from tqdm import tqdm

from tests.faults.injection import FAULTS
from tests.faults.matrix import PHASES, Reference, cells
from tests.stores import synthetic_store

Found = Mapping[tuple[str, str], Counter[str]]  # (fault, phase): outcomes


def main() -> int:
    """Run the matrix; the status is 1 where an outcome is wrong."""
    # A script in the background hands an ignored SIGINT down to all it starts, and ^C would never arrive.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        reference = Reference.of(synthetic_store(Path(folder)))
        todo = list(cells(FAULTS))
        for cell in tqdm(todo, unit="run", desc="faults", mininterval=0.1 if sys.stderr.isatty() else 10):
            name = cell.fault().name
            try:
                outcome = cell.run(reference, Path(folder))
            except Exception as failure:  # whatever it is, the other runs are wanted too
                outcome = "WRONG"
                wrong.append(f"{name}, {cell.phase.name}, {cell.schedule}, {cell.banks} banks: {failure!r}")
            found[name, cell.phase.name][outcome] += 1
    print("\n".join(table(found)))
    print(f"\n{len(todo)} runs, {len(wrong)} wrong")
    for line in wrong:
        print(line)
    return int(bool(wrong))


def expected() -> Found:
    """What the runs come to where nothing is wrong."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for cell in cells(FAULTS):
        fault = cell.fault()
        found[fault.name, cell.phase.name][fault.outcome] += 1
    return found


def table(found: Found) -> list[str]:
    """The outcomes as lines of Markdown: a row for each fault, a column for each phase."""
    rows = ["| fault | " + " | ".join(phase.name for phase in PHASES) + " |", "|---" * (len(PHASES) + 1) + "|"]
    for name in (fault().name for fault in FAULTS):
        outcomes = (found[name, phase.name] for phase in PHASES)
        texts = (", ".join(f"{outcome} x {number}" for outcome, number in cell.items()) for cell in outcomes)
        rows.append(f"| {name} | " + " | ".join(texts) + " |")
    return rows


if __name__ == "__main__":
    sys.exit(main())
