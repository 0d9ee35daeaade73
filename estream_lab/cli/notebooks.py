"""estream notebooks run: notebooks with checked parameters, in this environment's kernel."""

import argparse
import json
from pathlib import Path

from estream_lab.errors import EStreamError
from estream_lab.notebooks import run as run_notebooks


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("notebooks", help="run notebooks")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    action = actions.add_parser("run", help="run notebooks to their end and keep the executed copies")
    action.add_argument("paths", nargs="+", type=Path, metavar="NOTEBOOK")
    action.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
    action.add_argument("--fast", action="store_true", help="short for -p fast=true")
    action.add_argument(
        "--output",
        type=Path,
        default=Path("out/notebooks"),
        metavar="FOLDER",
        help="for the executed copies (default: out/notebooks)",
    )
    action.add_argument("--keep-going", action="store_true", help="run the others after a failed one")
    return action


def run(options: argparse.Namespace) -> int:
    """Run the command; the status is 1 where a notebook failed."""
    parameters = dict(_pair(text) for text in options.parameter)
    if options.fast:
        parameters["fast"] = "true"
    report = run_notebooks(
        options.paths, parameters, options.output, keep_going=options.keep_going, progress=not options.json
    )
    if options.json:
        print(json.dumps(report.to_json()))
    else:
        for notebook in report.notebooks:
            print(f"{notebook.status:7s} {notebook.seconds:7.1f} s  {notebook.name}  {notebook.error or ''}".rstrip())
    return int(any(notebook.status != "ok" for notebook in report.notebooks))


def kept(options: argparse.Namespace) -> str:
    """What a stopped run leaves."""
    return f"executed copies are kept in {options.output}" if options.output.exists() else "no file was changed"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise EStreamError(f"'{text}' is not a parameter such as tokens=512")
    return name, value
