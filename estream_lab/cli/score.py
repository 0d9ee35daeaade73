"""estream score: rank continuations of a prompt."""

import argparse
import json

from estream_lab.cli.options import add_engine, open_engine
from estream_lab.evaluate import rank_choices


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("score", help="rank choices by log-probability")
    add_engine(parser)
    parser.add_argument("--prompt", required=True, metavar="TEXT")
    parser.add_argument("--choice", action="append", required=True, metavar="TEXT", help="give at least two")
    parser.add_argument("--per-token", action="store_true", help="rank by the mean over a choice's tokens")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    with open_engine(options) as engine:
        ranking = rank_choices(engine, options.prompt, options.choice, per_token=options.per_token)
    if options.json:
        print(json.dumps(ranking.to_json()))
        return 0
    for choice in ranking.choices:
        print(f"{choice.logprob:12.4f}  {choice.per_token:9.4f} a token  {choice.text!r}")
    return 0
