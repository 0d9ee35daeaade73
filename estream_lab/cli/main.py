"""Entry point: parse, run one command, turn errors into one sentence and a status."""

import argparse
import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn, TextIO

from estream_lab import __version__
from estream_lab.cli import bench, doctor, notebooks, pack, prefill, routes, score
from estream_lab.errors import EStreamError

COMMANDS = (pack, prefill, score, routes, bench, notebooks, doctor)


class _Misuse(Exception):
    """Arguments that don't parse: the usage, and what is wrong."""


class _Parser(argparse.ArgumentParser):
    """Leaves it to `main` to tell of an error, which may be wanted as JSON."""

    def error(self, message: str) -> NoReturn:
        raise _Misuse(self.format_usage(), f"{self.prog}: error: {message}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``estream``; returns the exit status: 0, 1 for an error that was explained, 130 for ^C.

    Raises:
        SystemExit: --help and --version (0), arguments that don't parse (2).
    """
    _open_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = _Parser(prog="estream", description="Expert-streaming prefill of MoE models.")
    parser.add_argument("--version", action="version", version=f"estream {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in COMMANDS:
        added = module.add(commands)
        for command in added if isinstance(added, tuple) else (added,):  # a command may have several actions
            command.add_argument("--json", action="store_true", help="print one JSON object on standard output")
            command.add_argument("--debug", action="store_true", help="show a traceback for errors")
            command.set_defaults(run=module.run)
    try:
        options = parser.parse_args(given)
    except _Misuse as misuse:
        usage, message = misuse.args
        _say(f"{usage}{message}", sys.stderr)
        if "--json" in given:
            _say(json.dumps({"error": message}), sys.stdout)
        raise SystemExit(2) from None
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
    except MemoryError as error:
        return _explain(options, f"not enough memory ({str(error) or 'none left'}): choose smaller numbers", 1)
    except OSError as error:
        return _explain(options, f"{error.filename or 'the system'}: {error.strerror or error}", 1)
    return status


def _open_streams() -> None:
    """Make both streams fit to print on: closed ones swallow it, and characters that one lacks are escaped."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _explain(options: argparse.Namespace, message: str, status: int) -> int:
    if options.debug:
        traceback.print_exc()
    _say(f"estream: {message}", sys.stderr)
    if options.json:
        _say(json.dumps({"error": message}), sys.stdout)
    return status


def _say(text: str, stream: TextIO) -> None:
    """Print an error as far as the stream takes it: the status tells as well."""
    with contextlib.suppress(OSError):
        print(text, file=stream, flush=True)
