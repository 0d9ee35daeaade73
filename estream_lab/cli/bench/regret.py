"""estream bench regret: what choices by a profile cost against every configuration measured, at declared bandwidths."""

import argparse
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from estream_lab import __version__
from estream_lab.bench.load import OtherLoad
from estream_lab.cli.bench.regret_table import table
from estream_lab.cli.bench.synthetic import add_synthetic, synthetic_asked
from estream_lab.cli.bench.workplace import workplace
from estream_lab.cli.measuring import DEFAULT_TOKENS, measured_prompt
from estream_lab.cli.options import positive, rate
from estream_lab.cli.results import check_results
from estream_lab.errors import EStreamError
from estream_lab.machine import available_cpus, processor
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack
from estream_lab.trace import write_atomically
from estream_lab.tuning.gates import verdict
from estream_lab.tuning.grids import group_sizes
from estream_lab.tuning.misses import Account
from estream_lab.tuning.models import MODELS
from estream_lab.tuning.pilot import Pilot, pilot
from estream_lab.tuning.trial import Plan, Trial, quick_sizes, trial

SHIPPED = Path(__file__).parents[3] / "data" / "tiny_moe"
FACTORS = (0.5, 1.0, 2.0)  # below 1 storage binds, above 1 computing does
ROUNDS, PROFILE_ROUNDS = 2, 3


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the action."""
    action = actions.add_parser(
        "regret", help="profile, two like sweeps, and what configure's choices cost, at three read bandwidths"
    )
    action.add_argument(
        "store",
        type=Path,
        nargs="?",
        metavar="STORE",
        help="a NAME.estream folder (default: the shipped model, packed)",
    )
    add_synthetic(action)
    action.add_argument(
        "--folder",
        type=Path,
        help="where stores, profiles and samples are made and kept: the same command goes on where it was stopped "
        "(default: a temporary one in the user's cache)",
    )
    action.add_argument(
        "--read-bandwidth",
        type=rate,
        nargs="+",
        metavar="SIZE/s",
        help="declared limits (default: half, once and twice the one at which reading takes as long as computing)",
    )
    action.add_argument("--prompt-file", type=Path, metavar="FILE", help="a UTF-8 text to measure with")
    action.add_argument(
        "--tokens",
        type=positive,
        metavar="N",
        help=f"of the prompt file, else made up (default {DEFAULT_TOKENS}, or the model's context)",
    )
    action.add_argument(
        "--rounds", type=positive, default=ROUNDS, metavar="N", help=f"of each of the two sweeps (default {ROUNDS})"
    )
    action.add_argument(
        "--profile-rounds", type=positive, default=PROFILE_ROUNDS, metavar="N", help=f"(default {PROFILE_ROUNDS})"
    )
    action.add_argument("--threads", type=positive, metavar="N", help="compute threads (default: all processors)")
    action.add_argument(
        "--quick",
        action="store_true",
        help="a round a sweep, and where the grid is large without the smallest group size",
    )
    action.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="write the figures as well")
    return action


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    if options.store is not None and options.synthetic:
        raise EStreamError("give a store or --synthetic, not both: each names a model")
    check_results({"--output": options.output}, {"the store": options.store, "--prompt-file": options.prompt_file})
    with ExitStack() as stack:
        folder = stack.enter_context(workplace(options.folder))
        plan = _plan(options, _store(options, folder))
        kept = folder / f"regret-{plan.store.checksum}-{len(plan.tokens)}"
        kept.mkdir(exist_ok=True)
        found = measure(plan, options.read_bandwidth, kept, quick=options.quick, progress=not options.json)
    if options.output is not None:
        write_atomically(options.output, json.dumps(found, indent=1).encode() + b"\n")
    print(json.dumps(found) if options.json else table(found))
    return 0


def measure(
    plan: Plan, declared: list[int] | None, folder: Path, *, quick: bool = False, progress: bool = False
) -> dict[str, Any]:
    """The trials at the declared bandwidths, in bytes/s, by default those of `FACTORS`, and the verdicts.

    Raises:
        EStreamError: as `trial` and `pilot`.
    """
    first = pilot(plan.store, plan.tokens, plan.threads, folder / "pilot.json", prompt=plan.prompt)
    asked = declared or [round(factor * first.balanced_bandwidth) for factor in FACTORS]
    bandwidths = list(dict.fromkeys(asked))  # a trial counts once in the verdicts
    expected = [plan.samples * first.sample_seconds(each) for each in bandwidths]
    _announce(plan, bandwidths, expected)
    load, start = OtherLoad(), time.perf_counter()
    trials, others = [], []
    for number, bandwidth in enumerate(bandwidths, 1):
        if progress:
            print(f"{number} of {len(bandwidths)}: reads limited to {bandwidth / 1e6:.1f} MB/s", file=sys.stderr)
        trials.append(trial(plan, bandwidth, folder, progress=progress))
        others.append(load.lap())
    return _figures(plan, first, trials, others) | {
        "quick": quick,
        "expected_seconds": sum(expected),
        "seconds": time.perf_counter() - start,
    }


def _announce(plan: Plan, bandwidths: list[int], expected: list[float]) -> None:
    """How long it will take, on standard error."""
    parts = ", ".join(
        f"{seconds / 60:.1f} at {each / 1e6:.1f} MB/s" for each, seconds in zip(bandwidths, expected, strict=True)
    )
    print(
        f"about {sum(expected) / 60:.1f} minutes ({parts}) for {plan.samples} samples at each bandwidth, less what is "
        "measured already",
        file=sys.stderr,
    )


def _store(options: argparse.Namespace, folder: Path) -> Store:
    if options.store is not None:
        return Store(options.store)
    if options.synthetic:
        return synthetic_asked(options, folder)
    path = folder / "tiny_moe.estream"
    if not path.exists():
        pack(SHIPPED / "checkpoint", path, progress=not options.json)
    if options.prompt_file is None:
        options.prompt_file = SHIPPED / "heldout" / "text.txt"
    return Store(path)


def _plan(options: argparse.Namespace, store: Store) -> Plan:
    if options.tokens is None:
        options.tokens = min(DEFAULT_TOKENS, store.spec.context)
    tokens, prompt = measured_prompt(options, store)
    sizes = (quick_sizes if options.quick else group_sizes)(store.spec.experts)
    rounds = 1 if options.quick else options.rounds
    return Plan(store, tokens, prompt, sizes, options.profile_rounds, rounds, options.threads)


def _figures(plan: Plan, first: Pilot, trials: list[Trial], others: list[float]) -> dict[str, Any]:
    """Plain types."""
    regrets = [regret for each in trials for regret in each.regrets]
    floors = [floor for each in trials for floor in each.floors.values()]
    verdicts = [verdict(model, regrets, floors) for model in MODELS]
    return {
        "machine": processor(),
        "kind": "measured",
        "version": __version__,
        "model": str(plan.store.origin.get("checkpoint", "")),
        "store_checksum": plan.store.checksum,
        "store_bytes": plan.store.nbytes,
        "prompt": plan.prompt,
        "tokens": len(plan.tokens),
        "threads": plan.threads or available_cpus(),
        "group_sizes": list(plan.sizes),
        "rounds": plan.rounds,
        "profile_rounds": plan.profile_rounds,
        "pilot": asdict(first),
        "trials": [_trial(each, other) for each, other in zip(trials, others, strict=True)],
        "verdicts": [asdict(each) | {"within": each.within} for each in verdicts],
    }


def _trial(each: Trial, other: float) -> dict[str, Any]:
    profile = each.profile
    return {
        "read_bandwidth": each.read_bandwidth,
        "other_load": other,
        "disturbance": profile.disturbance,
        "other_bytes": profile.other_bytes,
        "samples": len(each.samples),
        "configurations": len({sample.configuration for sample in each.samples}),
        "regrets": [regret.to_json() | {"noise_floor": each.floors[regret.budget]} for regret in each.regrets],
        "misses": [
            {
                "model": miss.model,
                "chosen": _account(miss.chosen),
                "fastest": _account(miss.fastest),
                "held_to_depth": miss.held_to_depth,
                "regret_again": miss.regret_again,
            }
            for miss in each.misses
        ],
    }


def _account(each: Account) -> dict[str, Any]:
    return asdict(each) | {"configuration": each.configuration._asdict(), "furthest": each.furthest.name}
