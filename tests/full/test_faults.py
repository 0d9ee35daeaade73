"""The whole fault matrix: every fault x every phase x every schedule, over an arena of two banks and of one."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.injection import FAULTS, Fault
from tests.faults.matrix import EARLY, PHASES, SCHEDULES, Reference, cells
from tests.stores import synthetic_store

RUNS = 52  # of each fault


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference.of(synthetic_store(tmp_path_factory.mktemp("reference")))


@pytest.mark.parametrize("fault", FAULTS, ids=[fault().name.replace(" ", "_") for fault in FAULTS])
def test_a_fault_at_every_phase_of_every_schedule(reference: Reference, tmp_path: Path, fault: type[Fault]) -> None:
    found: Counter[str] = Counter(cell.run(reference, tmp_path) for cell in cells([fault]))
    sys.stdout.write(f"{fault().name}: {dict(found)}\n")
    assert found == {fault().outcome: RUNS}  # one outcome, wherever the fault comes


def test_the_number_of_runs_is_that_of_the_schedules_the_arenas_and_the_phases() -> None:
    """Else a phase or a schedule that the matrix leaves out by mistake would only make it shorter."""
    anywhere = sum(phase.runs == "prefill" and not phase.early_only for phase in PHASES)
    before_routes = sum(phase.early_only for phase in PHASES)
    drained = len(EARLY)  # needs a bank to spare
    elsewhere = sum(phase.runs != "prefill" for phase in PHASES)
    streamed = 2 * (anywhere * len(SCHEDULES) + before_routes * len(EARLY)) - drained
    assert streamed + elsewhere == RUNS == len(list(cells([Fault])))
