"""Record the figures that the notebooks notebooks/regression/paper_*.ipynb are held to.

    .venv/bin/python -m tools.paper_baselines              # all of them, a minute or two
    .venv/bin/python -m tools.paper_baselines paper_scale  # one

What is computed: `estream_lab.tuning.paper`. Of values that were measured only shares of routes are recorded.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from estream_lab.notebooks.baseline import Figure
from estream_lab.simulate import load_device
from estream_lab.trace import check_writable, write_atomically
from estream_lab.tuning.paper import Mark, bubbles, configurations, lengths, routes, scale
from estream_lab.tuning.paper.baseline import figures
from tools.command import ended

DATA = Path(__file__).parents[1] / "data"
BASELINES = DATA / "baselines"
CHECKPOINT, TEXT = DATA / "tiny_moe" / "checkpoint", DATA / "tiny_moe" / "heldout" / "text.txt"


def _routes(fast: bool) -> Sequence[Mark]:
    return routes.marks(routes.prompts(routes.FAST if fast else routes.FULL, CHECKPOINT, TEXT.read_text("utf-8")))


def _bubbles(fast: bool) -> Sequence[Mark]:
    return bubbles.simulated_marks(bubbles.simulated(load_device("phone")))


def _configurations(fast: bool) -> Sequence[Mark]:
    swept = configurations.sweep_device(load_device("phone"), configurations.FAST if fast else configurations.FULL)
    return [*configurations.marks(swept), *configurations.summary(swept)]


def _scale(fast: bool) -> Sequence[Mark]:
    device, size = load_device("phone"), scale.FAST if fast else scale.FULL
    return scale.marks_of(lengths.runs(device, size), device, size)


def _lengths(fast: bool) -> Sequence[Mark]:
    return lengths.marks(lengths.runs(load_device("phone"), lengths.FAST if fast else lengths.FULL))


COMPUTED: dict[str, Callable[[bool], Sequence[Mark]]] = {
    "paper_fig2_routes": _routes,
    "paper_fig6_bubbles": _bubbles,
    "paper_fig10_configurations": _configurations,
    "paper_scale": _scale,
    "paper_lengths": _lengths,
}
"""By notebook: its marks, in the short form or in the long one."""


def main() -> None:
    """Record what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COMPUTED)} (default: all)")
    options = parser.parse_args()
    if strange := [name for name in options.names if name not in COMPUTED]:
        parser.error(f"there is no notebook '{strange[0]}': choose of {', '.join(COMPUTED)}")
    for name in options.names or COMPUTED:
        path = BASELINES / f"{name}.json"
        check_writable(path)
        write_atomically(path, json.dumps(recorded(name), indent=1, allow_nan=False).encode() + b"\n")


def recorded(name: str) -> dict[str, dict[str, Figure]]:
    """What a notebook's file of baselines holds."""
    return {
        size: figures(COMPUTED[name](fast), measured=name == "paper_fig2_routes")
        for size, fast in (("fast", True), ("full", False))
    }


if __name__ == "__main__":
    raise SystemExit(ended(main, left="baselines that weren't written are as they were"))
