"""estream sweep: every group size, queue depth and number of banks, measured; what a choice would have cost."""

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from estream_lab.cli.measuring import add_measuring, measured_prompt
from estream_lab.cli.results import check_results
from estream_lab.errors import EStreamError
from estream_lab.streaming import Store
from estream_lab.tuning.grids import Configuration, configurations
from estream_lab.tuning.models import MODELS
from estream_lab.tuning.profile_file import load_profile
from estream_lab.tuning.regret import noise_floor, regrets
from estream_lab.tuning.samples_file import SweepSample, open_samples, read_samples
from estream_lab.tuning.sweep import medians, subject, sweep

ROUNDS = 3


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("sweep", help="measure every configuration, to hold choices against")
    add_measuring(parser, ROUNDS)
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="also tell what the choices by this profile cost, at three budgets"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="the samples, a line each as they come; of the same sweep it goes on where it was stopped",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    read = {"the store": options.store, "--prompt-file": options.prompt_file, "--profile": options.profile}
    check_results({"--output": options.output}, read)
    store = Store(options.store)
    tokens, prompt = measured_prompt(options, store)
    profile = load_profile(options.profile, store) if options.profile is not None else None
    sizes = tuple(sorted(set(options.group_sizes))) if options.group_sizes else None
    grid = configurations(store.spec.experts, sizes, tuple(sorted(set(options.queue_depths))))
    if not grid:
        raise EStreamError("no layer has as many groups as reads may be under way: give smaller --queue-depths")
    how = {"threads": options.threads, "read_bandwidth": options.read_bandwidth}
    told = subject(store, tokens, grid, prompt=prompt, **how)
    with open_samples(options.output, told) as file:
        if file.dropped_bytes:
            print(f"{options.output}: the last line was cut off, its sample is measured again", file=sys.stderr)
        samples = sweep(store, tokens, file, grid, options.rounds, **how, progress=not options.json)
    found = told | {"kind": "measured", "samples": len(samples), "rows": _rows(samples)}
    if profile is not None:
        found["regrets"] = [each.to_json() for model in MODELS for each in regrets(profile, samples, model)]
        found["noise_floor"] = noise_floor(profile, samples)
    print(json.dumps(found) if options.json else table(found))
    if not options.json:
        print(f"written         {options.output}")
    return 0


def kept(options: argparse.Namespace) -> str:
    """What a stopped run leaves."""
    try:
        _, samples = read_samples(options.output)
    except EStreamError:  # it hadn't begun
        return "no file was changed"
    return f"{len(samples)} samples are kept in {options.output}, run the same command again to go on"


def _rows(samples: list[SweepSample]) -> list[dict[str, Any]]:
    """The configurations, the fastest first."""
    rows = []
    for configuration, seconds in sorted(medians(samples).items(), key=lambda row: (row[1], row[0])):
        mine = [sample for sample in samples if sample.configuration == configuration]
        rows.append(
            {
                **configuration._asdict(),
                "seconds_median": seconds,
                "seconds_least": min(sample.seconds for sample in mine),
                "seconds_most": max(sample.seconds for sample in mine),
                "storage_idle": median(sample.storage_idle for sample in mine),
                "arena_bytes": mine[0].arena_bytes,
                "peak_rss_bytes": max(sample.peak_rss_bytes for sample in mine),
                "samples": len(mine),
            }
        )
    return rows


def table(found: dict[str, Any]) -> str:
    """The sweep for people."""
    limit = f", reads limited to {found['read_bandwidth'] / 1e6:g} MB/s (declared)" if found["read_bandwidth"] else ""
    lines = [
        f"{found['model'] or 'the store'}, {found['tokens']} tokens ({found['prompt']}), {found['threads']} threads, "
        f"measured on {found['machine']}{limit}",
        f"{len(found['rows'])} configurations, {found['samples']} samples; medians, the fastest first",
    ]
    for row in found["rows"]:
        lines.append(
            f"G={row['group_size']:<3d} Q={row['queue_depth']:<2d} B={row['banks']:<3d} {row['seconds_median']:9.4f} s "
            f"({row['seconds_least']:.4f} to {row['seconds_most']:.4f})  storage idle "
            f"{100 * row['storage_idle']:5.1f} %  arena {row['arena_bytes'] / 2**20:8.1f} MiB"
        )
    if found.get("regrets"):
        lines.append("choices, each configuration by the faster half of its samples, which nothing else disturbed:")
    for each in found.get("regrets", ()):
        chosen, fastest = (Configuration(**each[name]).told for name in ("chosen", "fastest"))
        floor = found["noise_floor"]
        noise = f", noise floor {100 * floor[each['budget']]:.1f} %" if floor else ""
        lines.append(
            f"{each['model']:7s} {each['budget']:6s} budget {each['budget_bytes']} bytes, {each['feasible']} fit: "
            f"chosen {chosen} {each['chosen_seconds']:.4f} s, fastest {fastest} {each['fastest_seconds']:.4f} s, "
            f"regret {100 * each['regret']:.1f} %{noise}"
        )
    return "\n".join(lines)
