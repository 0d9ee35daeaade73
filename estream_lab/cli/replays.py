"""estream simulate --replay: a measured request once more on the virtual clock, and how far that is from measured."""

import argparse
import json
from pathlib import Path
from typing import Any

from estream_lab.cli.results import check_results
from estream_lab.errors import EStreamError
from estream_lab.simulate import both_replays
from estream_lab.trace import Trace, write_trace

OTHERS = (
    "store", "family", "device", "tokens", "alpha", "seed", "routes", "schedule", "carry_over", "group_size", "banks",
    "queue_depth",
)  # fmt: skip
"""Options that say what a simulated request is: a measured one has its own."""


def add_replay(parser: argparse.ArgumentParser) -> None:
    """--replay, beside the options of a request that isn't measured."""
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="TRACE",
        help="instead: replay the request of a file by estream prefill --trace NAME.estream-trace from its own service "
        "times, and tell how far its time is from the measured one",
    )
    parser.set_defaults(default_of=parser.get_default)


def replay_file(options: argparse.Namespace) -> int:
    """Run the command with --replay.

    Raises:
        EStreamError: options of another request, or a trace that can't be read or replayed, or wasn't measured.
    """
    if strange := [name for name in OTHERS if getattr(options, name) != options.default_of(name)]:
        told = "the store" if strange[0] == "store" else f"--{strange[0].replace('_', '-')}"
        raise EStreamError(f"a replay is of the measured request and of nothing else: leave {told} out")
    check_results({"--trace": options.trace}, {"--replay": options.replay})
    measured = Trace.from_json(options.replay)
    if (kind := measured.provenance.get("kind", "without a kind")) != "measured":
        raise EStreamError(f"{options.replay} is no measured request ({kind}): give a trace by estream prefill --trace")
    replays = both_replays(measured)
    found = figures(measured, replays)
    if options.trace is not None:
        write_trace(replays["own times"], options.trace)
    print(json.dumps(found) if options.json else summary(found))
    if options.trace is not None and not options.json:
        print(f"written         {options.trace}")
    return 0


def figures(measured: Trace, replays: dict[str, Trace]) -> dict[str, Any]:
    """The request's time in seconds as measured and as replayed, and the distance as a share of the measured."""
    rows = [
        {
            "reads": name,
            "seconds": trace.request_ns / 1e9,
            "distance": trace.request_ns / measured.request_ns - 1,
        }
        for name, trace in replays.items()
    ]
    facts = ("machine", "model", "schedule", "carry_over", "group_size", "banks", "queue_depth", "tokens")
    told = {name: measured.provenance[name] for name in facts if name in measured.provenance}
    kind = replays["own times"].provenance["kind"]
    return told | {"kind": kind, "measured_seconds": measured.request_ns / 1e9, "replays": rows}


def summary(found: dict[str, Any]) -> str:
    """The same for people."""
    carried = ", carried over" if found.get("carry_over") else ""
    lines = [
        f"replay          {found['kind']}, of {found.get('machine', 'a machine that it does not name')}",
        f"schedule        {found['schedule']}{carried}: G={found.get('group_size', '?')} B={found['banks']} "
        f"Q={found['queue_depth']}",
        f"measured        {found['measured_seconds']:.4f} s",
    ]
    lines += [
        f"{row['reads']:15s} {row['seconds']:.4f} s, {100 * row['distance']:+.2f} % from the measured time"
        for row in found["replays"]
    ]
    return "\n".join(lines)
