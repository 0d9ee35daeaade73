"""Record the errors of our kernels, which notebooks/regression/host_kernels.ipynb is held to.

    .venv/bin/python -m tools.kernel_baseline

What is computed: `estream_lab.bench.regression`.
"""

import json
from pathlib import Path

from estream_lab.bench.regression import FAST, FULL, figures, measure
from estream_lab.kernels.host import threads
from estream_lab.trace import check_writable, write_atomically
from tools.command import ended

BASELINE = Path(__file__).parents[1] / "data" / "baselines" / "host_kernels.json"


def main() -> None:
    """Record both sizes."""
    check_writable(BASELINE)
    found = {name: figures(measure(size, threads=threads())) for name, size in (("fast", FAST), ("full", FULL))}
    write_atomically(BASELINE, json.dumps(found, indent=1, allow_nan=False).encode() + b"\n")


if __name__ == "__main__":
    raise SystemExit(ended(main, left="the baselines are as they were"))
