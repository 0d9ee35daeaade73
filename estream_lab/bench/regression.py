"""The regression of our kernels: their errors against float64 on fixed inputs, which are held to a baseline; and times.

Errors are the same on every computer but for the last bits of NumPy's functions, which few inputs come from. Times are
this computer's, and held to nothing.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from estream_lab.bench.comparison import compare
from estream_lab.bench.inputs import KINDS
from estream_lab.bench.peaks import READ, peaks
from estream_lab.bench.shapes import SHAPES, LayerShape
from estream_lab.errors import EStreamError
from estream_lab.notebooks.baseline import Figure, hold, recorded

TOLERANCE = 0.02
"""Of an error: a channel that is one fp32 step larger moves a few products to the other side of a rounding."""

LEAST_ERROR = 1e-9
"""Errors below are zero to float32: nothing is held to less."""


@dataclass(frozen=True)
class Size:
    """What is computed: layers, numbers of tokens, and timed rounds."""

    shapes: tuple[LayerShape, ...]
    tokens: tuple[int, ...]
    rounds: int


FULL = Size((SHAPES["olmoe"],), (32, 128, 1024), 5)
FAST = Size((LayerShape("small", 512, 256, 16, 4, 3.5),), (8, 64, 256), 1)


def measure(size: Size, *, threads: int, progress: Callable[[str, int, int], None] = lambda *_: None) -> dict[str, Any]:
    """What `estream bench kernels --json` gives for our kernels alone.

    Raises:
        EStreamError: memory doesn't suffice, or a kernel computes something else.
    """
    with TemporaryDirectory(prefix="estream-kernels-") as folder:
        return compare(
            size.shapes, size.tokens, (), threads=threads, rounds=size.rounds, kinds=KINDS, folder=Path(folder),
            peaks=peaks, progress=progress,
        )  # fmt: skip


def figures(found: Mapping[str, Any]) -> dict[str, Figure]:
    """The errors of our rows, by place."""
    return {
        f"{row['shape']}, {row['tokens']} tokens/{row['name']}/{kind}/{what}": error
        for row in found["rows"]
        if row["implementation"] == "estream"
        for what in ("relative_errors", "token_errors")
        for kind, error in row[what].items()
    }


def check(found: Mapping[str, Any], baseline: Path, name: str) -> int:
    """Hold the errors to those that a file records under a name; returns how many were compared.

    Raises:
        EStreamError: an error that left its baseline, was added or is gone; no such file or name in it.
    """
    mine, theirs = figures(found), recorded(baseline, name)

    def near(at: str) -> bool:
        here, there = float(mine[at]), float(theirs[at])
        return abs(here - there) <= max(TOLERANCE * there, LEAST_ERROR)

    return hold(mine, theirs, near)


def read(path: Path) -> dict[str, Any]:
    """What `estream bench kernels -o` wrote.

    Raises:
        EStreamError: the file isn't that.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not found["rows"] or "macs_per_weight_byte" not in found["rows"][0] or READ not in found["peak"]:
            raise KeyError("rows")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EStreamError(
            f"{path} is no result of `estream bench kernels -o FILE.json` ({error!r}): make one with it"
        ) from error
    return found
