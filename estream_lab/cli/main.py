"""Entry point: parse, run one command, turn errors into one sentence and a status."""

import argparse
import contextlib
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial
from typing import NoReturn, TextIO

from estream_lab import __version__
from estream_lab.cli import (
    bench,
    compare,
    configure,
    doctor,
    notebooks,
    pack,
    prefill,
    profile,
    routes,
    score,
    simulate,
    sweep,
)
from estream_lab.cli.signals import Stops
from estream_lab.errors import EStreamError

COMMANDS = (pack, prefill, score, routes, profile, configure, sweep, simulate, compare, bench, notebooks, doctor)


class _Misuse(Exception):
    """Arguments that don't parse: the usage, and what is wrong."""


class _Parser(argparse.ArgumentParser):
    """Leaves it to `main` to tell of an error, which may be wanted as JSON."""

    def error(self, message: str) -> NoReturn:
        raise _Misuse(self.format_usage(), f"{self.prog}: error: {message}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``estream``; returns the exit status: 0, 1 for an error that was explained, 130 for ^C, 143 for SIGTERM.

    Args:
        arguments: those of the command line by default. With others the process isn't ended where a signal doesn't: it
            is the caller's.

    Raises:
        SystemExit: --help and --version (0), arguments that don't parse (2).
    """
    with Stops(last_resort=arguments is None) as stops:
        bare = argparse.Namespace(debug=False, json=False, kept=_nothing_kept)
        stops.tell = partial(_stopped, bare, stops)
        try:
            _open_streams()
            return _run(sys.argv[1:] if arguments is None else list(arguments), stops)
        except KeyboardInterrupt as stop:
            stops.say(str(stop))
            return stops.status


def _run(given: list[str], stops: Stops) -> int:
    options = _parse(given)
    stops.tell = partial(_stopped, options, stops)
    try:
        status: int = options.run(options)
        sys.stdout.flush()  # a reader that is gone shows here, not in Python's last breath
    except Exception as error:
        if stops.number:  # what a stop breaks on its way is no error of its own
            raise KeyboardInterrupt from error
        return _failed(options, error)
    return status


def _parse(given: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="estream", description="Expert-streaming prefill of MoE models.")
    parser.add_argument("--version", action="version", version=f"estream {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in COMMANDS:
        added = module.add(commands)
        for command in added if isinstance(added, tuple) else (added,):  # a command may have several actions
            command.add_argument("--json", action="store_true", help="print one JSON object on standard output")
            command.add_argument("--debug", action="store_true", help="show a traceback for errors")
            kept = getattr(module, "kept", _nothing_kept)
            command.set_defaults(run=module.run, kept=kept, started_ns=time.time_ns())
    try:
        return parser.parse_args(given)
    except _Misuse as misuse:
        usage, message = misuse.args
        _say(f"{usage}{message}", sys.stderr)
        if "--json" in given:
            _say(json.dumps({"error": message}), sys.stdout)
        raise SystemExit(2) from None


def _nothing_kept(options: argparse.Namespace) -> str:
    return "no file was changed"


def _stopped(options: argparse.Namespace, stops: Stops, kept: str) -> None:
    _explain(options, f"stopped: {kept or options.kept(options)}", stops.status)


def _failed(options: argparse.Namespace, error: Exception) -> int:
    """Explain an error, or raise it again where it is a fault of this program."""
    match error:
        case EStreamError():
            return _explain(options, str(error), 1)
        case BrokenPipeError():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
            return 1
        case MemoryError():
            return _explain(options, f"not enough memory ({str(error) or 'none left'}): choose smaller numbers", 1)
        case OSError():
            return _explain(options, f"{error.filename or 'the system'}: {error.strerror or error}", 1)
    raise error


def _open_streams() -> None:
    """Make both streams fit to print on: closed ones swallow it, and characters that one lacks are escaped."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _explain(options: argparse.Namespace, message: str, status: int) -> int:
    if options.debug and sys.exc_info()[0]:
        traceback.print_exc()
    _say(f"estream: {message}", sys.stderr)
    if options.json:
        _say(json.dumps({"error": message}), sys.stdout)
    return status


def _say(text: str, stream: TextIO) -> None:
    """Print an error as far as the stream takes it: the status tells as well."""
    with contextlib.suppress(OSError):
        print(text, file=stream, flush=True)
