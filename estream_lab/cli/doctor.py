"""estream doctor: what works here and what doesn't."""

import argparse
import json
from pathlib import Path

from estream_lab.doctor import examine


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("doctor", help="examine this computer and, if given, a store")
    parser.add_argument("store", type=Path, nargs="?", metavar="STORE", help="verify every record of this store")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command; the status is 1 where something is missing or wrong."""
    folder = Path.cwd() if options.store is None else options.store.parent
    findings = examine(folder, options.store)
    if options.json:
        print(json.dumps({"findings": [finding.to_json() for finding in findings]}))
    else:
        for finding in findings:
            remedy = f" -> {finding.remedy}" if finding.remedy else ""
            print(f"{finding.status:8s} {finding.name:12s} {finding.detail}{remedy}")
    return int(any(finding.status in ("missing", "error") for finding in findings))
