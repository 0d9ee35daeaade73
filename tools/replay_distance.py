"""Measure requests here, replay each on the virtual clock, and print the distance in time, as Markdown.

    .venv/bin/python -m tools.replay_distance                                 # a small store of random weights
    .venv/bin/python -m tools.replay_distance tiny.estream --bandwidth 20MB/s --group-size 4

Each row is one request. "own times": its reads take what they took. "shared": they take their bytes at the declared
bandwidth, and what reads took on top in the median.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from estream_lab.cli.options import positive, rate
from estream_lab.engine import PrefillEngine
from estream_lab.experts.schedule import POLICIES
from estream_lab.simulate import both_replays
from estream_lab.trace import Trace
from tests.stores import synthetic_store
from tools.command import ended

BANDWIDTHS = (1_000_000, 4_000_000, 16_000_000)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("store", type=Path, nargs="?", metavar="STORE")
    parser.add_argument("--tokens", type=positive, default=64, metavar="N")
    parser.add_argument("--group-size", type=positive, default=2, metavar="G")
    parser.add_argument("--banks", type=positive, default=2, metavar="B")
    parser.add_argument("--queue-depth", type=positive, default=2, metavar="Q")
    parser.add_argument("--bandwidth", type=rate, nargs="+", default=list(BANDWIDTHS), metavar="SIZE/s")
    options = parser.parse_args()
    print("| reads limited to | schedule | measured | own times | shared |\n|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for line in rows(options, options.store or synthetic_store(Path(folder))):
            print(line, flush=True)


def rows(options: argparse.Namespace, store: Path) -> Iterator[str]:
    """A line for each bandwidth, schedule and carrying over."""
    for bandwidth in options.bandwidth:
        for schedule, carry_over in [*((name, False) for name in POLICIES), ("early", True)]:
            trace = measured(store, options, schedule=schedule, carry_over=carry_over, read_bandwidth=bandwidth)
            apart = [found.request_ns / trace.request_ns - 1 for found in both_replays(trace).values()]
            yield (
                f"| {bandwidth / 1e6:g} MB/s | {schedule}{', carried over' * carry_over} | "
                f"{trace.request_ns / 1e6:.1f} ms | {100 * apart[0]:+.2f} % | {100 * apart[1]:+.2f} % |"
            )


def measured(store: Path, options: argparse.Namespace, **settings: object) -> Trace:
    """One request, after one that warms up."""
    sizes = {"group_size": options.group_size, "banks": options.banks, "queue_depth": options.queue_depth}
    with PrefillEngine.open(store, progress=sys.stderr.isatty(), **sizes, **settings) as engine:
        tokens = np.arange(options.tokens, dtype=np.int32) % engine.spec.vocab
        engine.prefill(tokens)
        return engine.prefill(tokens).trace


if __name__ == "__main__":
    raise SystemExit(ended(main))
