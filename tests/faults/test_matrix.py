"""Every fault at every phase: the same bits or the one right sentence, never a hang, and the engine works afterwards.

The schedules take turns here; `tests/full/test_faults.py` runs all of them over two arenas.
"""

from pathlib import Path

import pytest

from tests.faults.injection import FAULTS, Fault
from tests.faults.matrix import DRAIN, EARLY, PHASES, SCHEDULES, Cell, Reference

CASES = [
    (fault, phase, names[(row + column) % len(names)])
    for row, fault in enumerate(FAULTS)
    for column, phase in enumerate(PHASES)
    for names in [list(EARLY) if phase.early_only else list(SCHEDULES)]
]


@pytest.mark.parametrize(
    ("fault", "phase", "schedule"), CASES, ids=[f"{f().name}-{p.name}-{s}".replace(" ", "_") for f, p, s in CASES]
)
def test_a_fault_gives_the_same_bits_or_the_right_sentence(
    reference: Reference, tmp_path: Path, fault: type[Fault], phase: object, schedule: str
) -> None:
    banks = 1 if fault is Fault and phase is not DRAIN else 2  # the arena is full: every group waits for the one bank
    Cell(fault, phase, schedule, banks).run(reference, tmp_path)  # type: ignore[arg-type]
