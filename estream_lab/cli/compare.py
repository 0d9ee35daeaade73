"""estream compare: EStream and other ways to run a request, simulated with the same routes, device and budget."""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from estream_lab.cli.options import budget, positive
from estream_lab.cli.own import subject
from estream_lab.cli.requests import add_request
from estream_lab.errors import EStreamError
from estream_lab.simulate.rivals import (
    ChunkPadding,
    Contest,
    Contestant,
    Contexts,
    HottestFirst,
    NpuMoe,
    Outcome,
    Refused,
    WholeLayers,
)
from estream_lab.tuning.compare import Comparison, compare
from estream_lab.tuning.plans import Plan

MIB = 2**20


class RivalOption(NamedTuple):
    """An option of a contestant: the command line's name for it, whose field it is, and what it means."""

    flag: str
    contestant: type[Contestant]
    field: str
    settings: dict[str, Any]


def capacities(text: str) -> tuple[int, ...]:
    """'32,64,128' as numbers."""
    return tuple(positive(part.strip()) for part in text.split(","))


RIVAL_OPTIONS = (
    RivalOption("--context-setup", Contexts, "setup_seconds", {
        "type": float, "metavar": "SECONDS", "help": "QNN-switch: creating a context (default 0.016, assumed)",
    }),
    RivalOption("--context-copies", Contexts, "copies", {
        "type": positive, "metavar": "N", "help": "QNN-switch: copies of an expert meanwhile (default 2, assumed)",
    }),
    RivalOption("--chunk", ChunkPadding, "rows", {
        "type": positive, "metavar": "ROWS", "help": "chunk padding: rows of a static graph (default 256, assumed)",
    }),
    RivalOption("--per-prompt-chunk", ChunkPadding, "per_prompt_chunk", {
        "action": "store_true", "default": None, "help": "chunk padding: pad each chunk of the prompt by itself",
    }),
    RivalOption("--hottest", HottestFirst, "unit", {
        "choices": ["expert", "group"], "help": "hottest first: what is sorted by popularity (default: expert)",
    }),
    RivalOption("--layer-buffers", WholeLayers, "buffers", {
        "type": positive, "metavar": "N", "help": "whole layers: layers in memory (default 2)",
    }),
    RivalOption("--read-pieces", WholeLayers, "pieces", {
        "type": positive, "metavar": "N",
        "help": "whole layers: reads of a layer that are outstanding together (default: what is fastest)",
    }),
    RivalOption("--quantile", NpuMoe, "quantile", {
        "type": float, "metavar": "P", "help": "NPUMoE-like: of an expert's load, for its tier (default 0.9, assumed)",
    }),
    RivalOption("--tiers", NpuMoe, "capacities", {
        "type": capacities, "metavar": "ROWS,…", "help": "NPUMoE-like: the tiers (default 32 to 4096, assumed)",
    }),
    RivalOption("--graph-size", NpuMoe, "group_size", {
        "type": positive, "metavar": "N", "help": "NPUMoE-like: experts of a graph (default 8, assumed)",
    }),
    RivalOption("--theta", NpuMoe, "theta", {
        "type": float, "metavar": "TIMES",
        "help": "NPUMoE-like: dispatches that a hot group's rows must be worth (default 1, assumed)",
    }),
    RivalOption("--dispatch", NpuMoe, "dispatch_seconds", {
        "type": float, "metavar": "SECONDS", "help": "NPUMoE-like: of a graph (default: the device's, as for all)",
    }),
    RivalOption("--cpu-slowdown", NpuMoe, "cpu_slowdown", {
        "type": float, "metavar": "TIMES", "help": "NPUMoE-like: of rows on the CPU (default 4.4, published)",
    }),
    RivalOption("--in-turn", NpuMoe, "overlap", {
        "action": "store_const", "const": False, "help": "NPUMoE-like: NPU and CPU never work at the same time",
    }),
)  # fmt: skip


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("compare", help="EStream beside rival ways to run a request, all simulated")
    parser.add_argument(
        "store",
        type=Path,
        metavar="STORE",
        nargs="?",
        help="a NAME.estream folder: its model, on this computer as its profile has it, unless --device names another",
    )
    add_request(parser)
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="of the store, made by estream profile (default: that of its configuration here)",
    )
    parser.add_argument(
        "--memory-budget", type=budget, required=True, metavar="SIZE", help="most memory of the request, e.g. 1GiB"
    )
    parser.add_argument(
        "--over-budget", action="store_true", help="show contestants that need more than the budget, marked"
    )
    rivals = parser.add_argument_group("what the rivals' published texts don't say")
    for option in RIVAL_OPTIONS:
        rivals.add_argument(option.flag, dest=_destination(option), **option.settings)
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    device, model, routes, origin = subject(options)
    contest = Contest.of_routes(device, model, routes, options.memory_budget, origin, options.seed)
    chosen: dict[type[Contestant], dict[str, Any]] = {}
    for option in RIVAL_OPTIONS:
        if (value := getattr(options, _destination(option))) is not None:
            chosen.setdefault(option.contestant, {})[option.field] = value
    found = compare(contest, options=chosen, over_budget=options.over_budget)
    if not found.outcomes:
        least = min(found.refused, key=lambda refused: refused.peak_bytes)
        raise EStreamError(
            f"nothing fits a budget of {options.memory_budget} bytes, the least is {least.peak_bytes} for "
            f"{least.contestant}: raise --memory-budget, or give --over-budget"
        )
    print(json.dumps(found.to_json()) if options.json else table(found))
    return 0


def table(found: Comparison) -> str:
    """The comparison for people: a row a contestant, then why some didn't run and what was assumed."""
    facts, budget_bytes = found.provenance, found.contest.budget_bytes
    lines = [
        f"device          {facts['machine']}",
        f"                {facts['kind']}",
        f"model           {facts['model']}, {facts['tokens']} tokens, routes {facts['routes']}",
        f"budget          {budget_bytes} bytes ({budget_bytes / MIB:.1f} MiB)",
        *map(_plan, found.plans),
        "",
        f"{'contestant':30}{'seconds':>9}{'peak MiB':>10}{'read MiB':>10}{'rows/route':>11}{'dropped':>9}  settings",
        *map(_row, found.entries),
    ]
    if found.refused:
        lines += ["", *(refused.sentence for refused in found.refused)]
    told = {"device": found.contest.device.assumed} | {each.contestant: each.assumed for each in found.outcomes}
    lines += ["", *(f"assumed         {name}: {', '.join(what)}" for name, what in told.items() if what)]
    return "\n".join(lines)


def _plan(plan: Plan) -> str:
    used = plan.settings
    told = "no bank fits" if plan.predicted_seconds is None else f"{plan.predicted_seconds:.3f} s predicted"
    return f"{plan.planner + ' plan':16}G={used.group_size} B={used.banks} Q={used.queue_depth}: {told}"


def _row(entry: Outcome | Refused) -> str:
    """A contestant's line."""
    name = f"{entry.contestant:30}"
    if isinstance(entry, Refused):
        return f"{name}{'refused':>9}{entry.peak_bytes / MIB:10.1f}"
    rows = entry.rows
    padded, lost = rows.rows / max(rows.routes, 1), 100 * rows.dropped / max(rows.routes, 1)
    over = ", over the budget" * entry.over_budget
    before = f", {entry.preload_bytes / MIB:.1f} MiB read beforehand" * bool(entry.preload_bytes)
    return (
        f"{name}{entry.seconds:9.3f}{entry.peak_bytes / MIB:10.1f}{entry.bytes_read / MIB:10.1f}{padded:11.2f}"
        f"{lost:8.2f}%  {entry.settings}{before}{over}"
    )


def _destination(option: RivalOption) -> str:
    """Apart from the options of the request, whatever they are called."""
    return f"rival_{option.flag.strip('-').replace('-', '_')}"
