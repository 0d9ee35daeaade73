"""Entry point: parse, run one command, turn errors into one sentence and a status."""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence

from estream_lab import __version__
from estream_lab.cli import bench, doctor, notebooks, pack, prefill, routes, score
from estream_lab.errors import EStreamError

COMMANDS = (pack, prefill, score, routes, bench, notebooks, doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``estream``; returns the exit status: 0, 1 for an error that was explained, 130 for ^C."""
    parser = argparse.ArgumentParser(prog="estream", description="Expert-streaming prefill of MoE models.")
    parser.add_argument("--version", action="version", version=f"estream {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in COMMANDS:
        command = module.add(commands)
        command.add_argument("--json", action="store_true", help="print one JSON object on standard output")
        command.add_argument("--debug", action="store_true", help="show a traceback for errors")
        command.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()  # a reader that is gone shows here, not in Python's last breath
    except EStreamError as error:
        return _explain(options, str(error), 1)
    except KeyboardInterrupt as stop:
        kept = str(stop) or "no file was changed"
        return _explain(options, f"stopped: {kept}", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        return 1
    except OSError as error:
        return _explain(options, f"{error.filename or 'the system'}: {error.strerror or error}", 1)
    return status


def _explain(options: argparse.Namespace, message: str, status: int) -> int:
    if options.debug:
        traceback.print_exc()
    print(f"estream: {message}", file=sys.stderr)
    if options.json:
        print(json.dumps({"error": message}))
    return status
