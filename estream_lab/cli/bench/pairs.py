"""estream bench pairs: what choosing a configuration costs on simulated devices, against exhaustive sweeps."""

import argparse
import json
import sys
from typing import Any

from tqdm import tqdm

from estream_lab import __version__
from estream_lab.cli.requests import profile_file, simulated_on
from estream_lab.cli.results import check_results
from estream_lab.simulate import Device, load_device
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.pairs import (
    DEVELOPMENT_SEEDS,
    FAMILIES,
    REPORTED_SEEDS,
    TOKENS,
    Case,
    Summary,
    drawn_cases,
    gate,
    summaries,
    sweep_size,
    twelve,
)

SEEDS = {"none": range(0), "development": DEVELOPMENT_SEEDS, "reported": REPORTED_SEEDS}


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the action."""
    action = actions.add_parser("pairs", help="choices for four models at three budgets, against simulated sweeps")
    action.add_argument(
        "--device", default="phone", metavar="NAME", help="a profile in data/devices, or a .json file (default: phone)"
    )
    action.add_argument(
        "--seeds",
        choices=list(SEEDS),
        default="none",
        help="also with noise, and on devices drawn around it: from the seeds for development, or from those that "
        "figures are reported of (minutes); default: none",
    )
    action.set_defaults(folder=None)
    return action


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    check_results({}, {"--device": profile_file(options)})
    device, seeds = load_device(options.device), SEEDS[options.seeds]
    cases, found = measure(device, seeds)
    told = {
        "kind": simulated_on(device),
        "version": __version__,
        "device": device.name,
        "tokens": TOKENS,
        "configurations": sweep_size(),
        "gate": gate(),
        "seeds": [seeds[0], seeds[-1]] if seeds else [],
        "pairs": [pair for family, case in zip(FAMILIES, cases, strict=True) for pair in pairs_of(family, case)],
        "summaries": [each.to_json() for each in found],
    }
    print(json.dumps(told) if options.json else "\n".join(table(told)))
    return 0


def measure(device: Device, seeds: range) -> tuple[tuple[Case, ...], list[Summary]]:
    """The four models on the device, and what choices come to; with seeds, with noise and on other devices, too."""
    drawn = sweep_size(FAMILIES[seed % len(FAMILIES)] for seed in seeds)
    pause = 0.1 if sys.stderr.isatty() else 10
    with tqdm(total=sweep_size() + drawn, unit="run", desc="simulated", leave=False, mininterval=pause) as bar:
        cases = twelve(device, swept=bar.update)
        others = [((seed,), case) for seed, case in drawn_cases(device, seeds, swept=bar.update)]
    noises = len(seeds) * (len(cases) + 1)
    with tqdm(total=noises, unit="profile", desc="chosen by", leave=False, mininterval=pause) as bar:
        found = summaries(device.name, [(tuple(seeds), case) for case in cases], told=bar.update)
        if others:
            found += summaries(f"{len(seeds)} drawn", others, told=bar.update)
    return cases, list(found)


def pairs_of(family: str, case: Case) -> list[dict[str, Any]]:
    """A row for each budget: what each model chose, and what that costs."""
    rows = []
    for literal, shared in zip(case.regrets("literal"), case.regrets("shared"), strict=True):
        rows.append(
            {
                "family": family,
                "model": case.workload.model.title,
                "routes": case.workload.origin,
                "configurations": len(case.seconds),
                "budget": literal.budget,
                "budget_bytes": literal.budget_bytes,
                "feasible": literal.feasible,
                "fastest": literal.fastest._asdict(),
                "fastest_seconds": literal.fastest_seconds,
                "choices": {
                    each.model: {
                        "chosen": each.chosen._asdict(),
                        "seconds": each.chosen_seconds,
                        "regret": each.regret,
                        "peak_bytes": each.peak_rss_bytes,
                    }
                    for each in (literal, shared)
                },
            }
        )
    return rows


def table(found: dict[str, Any]) -> list[str]:
    """The pairs and what they come to, as Markdown."""
    lines = [
        f"{found['kind'][0].upper()}{found['kind'][1:]}; {found['tokens']} tokens, synthetic routes; "
        f"{found['configurations']} configurations, all simulated. Choices as G, B, Q.",
        "",
        "| model | budget | bytes | fit | fastest | seconds | literal | regret | shared | regret |",
        "|---|---|---:|---:|---|---:|---|---:|---|---:|",
    ]
    for row in found["pairs"]:
        choices = [
            f"{_place(each['chosen'])} | {_percent(each['regret'])}"
            for each in (row["choices"]["literal"], row["choices"]["shared"])
        ]
        lines.append(
            f"| {row['model']} | {row['budget']} | {row['budget_bytes']} | {row['feasible']} of "
            f"{row['configurations']} | {_place(row['fastest'])} | {row['fastest_seconds']:.4f} | "
            f"{' | '.join(choices)} |"
        )
    lines += [
        "",
        "| devices | noise | model | choices | fastest | within "
        f"{_percent(found['gate'])} | within budget | median regret | worst |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
        *map(_line, found["summaries"]),
    ]
    return lines


def _line(row: dict[str, Any]) -> str:
    return (
        f"| {row['devices']} | {'with' if row['noise'] else 'without'} | {row['model']} | {row['choices']} | "
        f"{row['exact']} | {row['within_gate']} | {row['within_budget']} | {_percent(row['median_regret'])} | "
        f"{_percent(row['worst_regret'])} |"
    )


def _place(configuration: dict[str, int]) -> str:
    each = Configuration(**configuration)
    return f"{each.group_size}, {each.banks}, {each.queue_depth}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
