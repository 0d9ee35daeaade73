"""docs/attribution.md's table of dense weights, computed anew."""

from estream_lab.evaluate.dense import dense_rows
from estream_lab.kernels.host import threads
from tests.golden_compare import TINY_MOE
from tests.repository.test_dense_doc import NUMBER, documented
from tools.dense_table import LENGTH, WINDOWS, table
from tools.numerics_table import TEXTS


def numbers(lines: list[str]) -> list[float]:
    return [float(found[0]) for line in lines for found in NUMBER.finditer(line)]


def test_the_table_is_what_the_command_computes() -> None:
    """Another processor rounds NumPy's functions otherwise, by which routers' ties may turn: hence a part in twenty."""
    rows = dense_rows(TINY_MOE, TEXTS, WINDOWS, LENGTH, threads=threads())
    mine, theirs = (numbers(lines) for lines in (table(rows, len(TEXTS) * WINDOWS, LENGTH), documented()))
    assert len(mine) == len(theirs)
    for here, there in zip(mine, theirs, strict=True):
        small = abs(there) < 0.005  # errors and divergences, of which half a unit of a percentage would allow anything
        assert abs(here - there) <= (0.1 * abs(there) if small else max(0.05 * abs(there), 0.005))
