"""Explore the protocol exhaustively over a grid of settings and print what was found, as Markdown.

    python -m tools.protocol_table [--fast]

Prints a row for each setting (states, transitions, seconds) and a row for each rule: what goes wrong without it.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tqdm import tqdm

from estream_lab.experts.cases import troubles
from estream_lab.experts.decide import Policies
from estream_lab.experts.exploration import Exploration, Setting, endless, explore
from estream_lab.experts.retention import KeepFirst, KeepLatest
from estream_lab.experts.rules import RULES
from estream_lab.experts.schedule import AfterRouting, CarryOver, Early, OnDemand

SHAPES = {  # (E, G): the (B, Q) that it is explored with; E is no multiple of G but once, K mostly none of B
    (3, 2): ((1, 1), (2, 1), (2, 2)),
    (5, 2): ((1, 1), (2, 1), (2, 2), (3, 2), (3, 3)),
    (7, 3): ((2, 2), (3, 2)),
    (7, 2): ((1, 1), (2, 1), (2, 2)),
    (4, 1): ((1, 1), (2, 2)),
    (9, 2): ((1, 1), (2, 2)),
}
FEW = ((), (1,), (0, 2), (0, 1, 2))  # sets of groups with work, where all subsets would be too many


def grid(*, fast: bool = False) -> Iterator[tuple[str, Setting]]:
    """(claim, setting); ``fast`` takes the smaller ones."""
    for (experts, size), arenas in SHAPES.items():
        groups = -(-experts // size)
        for banks, depth in arenas:
            if fast and groups * banks > 6:
                continue
            yield "any policy", Setting(experts, size, banks, depth, invocations=2)
            if groups * banks <= 8:
                faults = Setting(experts, size, banks, depth, stop=True, fail=True)
                yield "any policy, cancelled or failing at any point", faults
    for banks, depth in ((1, 1), (2, 1), (2, 2)):
        kept = Setting(3, 2, banks, depth, passes=(0, 1, 0), ahead=True, keep=True)
        yield "any policy, carried over and kept", kept
        carried = Setting(3, 2, banks, depth, passes=(0, 1), ahead=True, stop=True, fail=True)
        yield "any policy, carried over, cancelled or failing", carried
    for experts, banks in (
        ((7, 1), (9, 2)) if fast else ((7, 1), (9, 1), (13, 2))
    ):  # at least three refills of each bank
        for schedule in (OnDemand(), AfterRouting(), Early()):
            yield (
                "the schedules, many refills",
                Setting(experts, 2, banks, banks, policies=Policies(schedule), stop=True),
            )
    for retention, schedule in product((KeepFirst(1), KeepLatest()), (Early(), CarryOver())):
        policies = Policies(schedule, retention)
        turns = Setting(5, 2, 2 if fast else 3, 2, passes=(0, 1, 0), ahead=True, policies=policies, needed=FEW)
        yield "requests in turn, groups kept", turns if fast else replace(turns, stop=True)


def explored(*, fast: bool = False) -> Iterator[tuple[str, Setting, Exploration, float]]:
    """(claim, setting, what was found, seconds) of each setting of the grid."""
    rows = list(grid(fast=fast))
    for claim, setting in tqdm(rows, unit="setting", desc="exploring", disable=not sys.stderr.isatty()):
        start = time.perf_counter()
        found = explore(setting, keep_edges=True)
        yield claim, setting, found, time.perf_counter() - start


def rule_rows() -> list[str]:
    """The table of rules: what each demands, and the shortest way into trouble without it."""
    demands = {rule.name: rule.demand for rule in RULES}
    rows = [
        f"| {name} | {demands[name]} | {way.kind} | {len(way.moves)} | {way.hazard.first}; {way.hazard.second} |"
        for name, way in troubles().items()
    ]
    return ["| rule | it demands that | without it | after moves | the two events |", "|---|---|---|---:|---|", *rows]


def main() -> int:
    """Print both tables; exit status 1 if there was any trouble."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="the smaller half of the grid")
    fast = parser.parse_args().fast
    print("| what may happen | settings | states | transitions | ends | seconds | trouble |")
    print("|---|---:|---:|---:|---:|---:|---|")
    sums: dict[str, list[float]] = {}
    trouble: dict[str, set[str]] = {}
    for claim, _, found, seconds in explored(fast=fast):
        row = sums.setdefault(claim, [0.0] * 5)
        for at, value in enumerate((1, found.states, found.transitions, found.ends, seconds)):
            row[at] += value
        trouble.setdefault(claim, set()).update(found.trouble)
        if endless(found):
            trouble[claim].add("a way that leads back")
    sums["all"] = [sum(column) for column in zip(*sums.values(), strict=True)]
    for claim, (settings, states, transitions, ends, seconds) in sums.items():
        kinds = ", ".join(sorted(trouble.get(claim, set()))) or "none"
        print(
            f"| {claim} | {settings:.0f} | {states:,.0f} | {transitions:,.0f} | {ends:,.0f} | {seconds:.1f} | {kinds} |"
        )
    print()
    print("\n".join(rule_rows()))
    return int(any(trouble.values()))


if __name__ == "__main__":
    raise SystemExit(main())
