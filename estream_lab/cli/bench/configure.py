"""estream bench configure: how long choosing a configuration takes once there is a profile."""

import argparse
import json

from estream_lab import __version__
from estream_lab.cli.options import positive
from estream_lab.machine import processor
from estream_lab.tuning.speed import SEED, measure


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the action."""
    action = actions.add_parser("configure", help="seconds of a selection from service times that are there")
    action.add_argument("--rounds", type=positive, default=200, metavar="N", help="selections (default 200)")
    action.set_defaults(folder=None)
    return action


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    rows = measure(options.rounds)
    first = {key: rows[0][key] for key in ("configurations", "layers", "groups", "seconds_median")}
    told = {"machine": processor(), "kind": "measured", "version": __version__, "rounds": options.rounds}
    if options.json:
        print(json.dumps({**told, "service_times": f"made up, seed {SEED}", **first, "rows": rows}))
        return 0
    print(
        f"measured on {told['machine']}, medians of {options.rounds} selections; the service times they choose by are "
        f"made up (seed {SEED})"
    )
    for row in rows:
        verdict = "within" if row["within_gate"] else "above"
        print(
            f"{row['name']:30s} {row['configurations']:3d} configurations, {row['layers']} layers of {row['groups']} "
            f"groups: {1e3 * float(row['seconds_median']):.4f} ms ({1e3 * float(row['seconds_least']):.4f} to "
            f"{1e3 * float(row['seconds_most']):.4f}), {verdict} {1e3 * float(row['gate_seconds']):.2f} ms"
        )
    return 0
