"""The published figures that simulations are held to: `data/published.csv` of the checkout."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from estream_lab.errors import EStreamError

FILE = Path(__file__).parents[2] / "data" / "published.csv"


@dataclass(frozen=True)
class Published:
    """One figure of the paper.

    Attributes:
        id, quantity, value, unit, condition: as the file has them.
        mark: p for printed in the paper, n for a reader's notes on it that were not checked against it.
    """

    id: str
    quantity: str
    value: float
    unit: str
    condition: str
    mark: str


@cache
def published() -> dict[str, Published]:
    """Every figure by its id.

    Raises:
        EStreamError: no such file, as in an installation without the checkout.
    """
    try:
        lines = FILE.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise EStreamError(f"can't read the published figures in {FILE}: {error.strerror}; use the checkout") from error
    rows = csv.DictReader(lines)
    return {row["id"]: Published(**{**row, "value": float(row["value"])}) for row in rows}  # type: ignore[arg-type]
