"""estream bench: what can be measured on this computer; each action is a file of this room."""

import argparse

from estream_lab.cli.bench import configure, kernels, orders, pairs, prefill, regret, scale, schedules, start

ACTIONS = (configure, kernels, orders, pairs, prefill, regret, scale, schedules, start)


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> tuple[argparse.ArgumentParser, ...]:
    """Declare the command's actions."""
    parser = commands.add_parser("bench", help="measure")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    added = []
    for module in ACTIONS:
        action = module.add(actions)
        action.set_defaults(action=module.run)
        added.append(action)
    return tuple(added)


def run(options: argparse.Namespace) -> int:
    """Run the action that was asked for."""
    status: int = options.action(options)
    return status


def kept(options: argparse.Namespace) -> str:
    """What a stopped run leaves."""
    return "no file was changed" if options.folder is None else f"finished files are kept in {options.folder}"
