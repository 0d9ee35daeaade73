"""estream bench start: how long the first call takes, with nothing compiled yet and with all kernels kept."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from estream_lab import __version__
from estream_lab.cli.bench.workplace import synthetic_store, workplace
from estream_lab.cli.options import positive
from estream_lab.errors import EStreamError
from estream_lab.experts.executors import HOST_PROFILES
from estream_lab.machine import available_cpus, processor
from estream_lab.models.synthetic import synthetic_spec

CACHES = ("cold", "cached")


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the action."""
    action = actions.add_parser("start", help="seconds of the first call, cold and with kernels kept from before")
    action.add_argument("--rounds", type=positive, default=3, metavar="N", help="starts of each kind (default 3)")
    action.add_argument("--folder", type=Path, help="where the store is made and kept (default: in the cache folder)")
    return action


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    with workplace(options.folder) as folder:
        # of one size everywhere: the prefill itself takes some milliseconds
        store = synthetic_store(folder, synthetic_spec(hidden=64, ffn=64, layers=1, experts=4, top_k=2))
        rows = starts(store, folder, options.rounds)
    told = {"machine": processor(), "kind": "measured", "version": __version__, "processors": available_cpus()}
    if options.json:
        print(json.dumps({**told, "rounds": options.rounds, "rows": rows}))
        return 0
    print(f"measured on {told['machine']}, {told['processors']} processors, medians of {options.rounds} starts:")
    for row in rows:
        print(
            f"{row['profile']:10s} {row['cache']:6s}  {row['seconds_median']:6.2f} s of a whole command "
            f"({row['seconds_least']:.2f} to {row['seconds_most']:.2f})"
        )
    print("of estream prefill with four tokens, in a process of its own; cold: with an empty cache of compiled kernels")
    return 0


def starts(store: Path, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Time whole commands, in turn, for each profile of the host.

    Returns:
        A row for each profile and state of the cache, with the median, least and most seconds of the command.
    """
    seconds: dict[tuple[str, str], list[float]] = {(p, c): [] for p in HOST_PROFILES for c in CACHES}
    with tqdm(total=rounds * len(seconds), unit="start", desc="starts", leave=False) as bar:
        for _ in range(rounds):
            for profile in HOST_PROFILES:
                with tempfile.TemporaryDirectory(prefix="cache-", dir=folder) as cache:
                    for state in CACHES:
                        seconds[profile, state].append(_start(store, profile, cache))
                        bar.update()
    return [
        {
            "profile": profile,
            "cache": state,
            "seconds_median": statistics.median(taken),
            "seconds_least": min(taken),
            "seconds_most": max(taken),
        }
        for (profile, state), taken in seconds.items()
    ]


def _start(store: Path, profile: str, cache: str) -> float:
    command = [sys.executable, "-m", "estream_lab", "prefill", str(store), "--tokens", "1 2 3 4", "--profile", profile]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--group-size", "4", "--json"],
        env={**os.environ, "NUMBA_CACHE_DIR": cache}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    taken = time.perf_counter() - began
    if done.returncode:
        raise EStreamError(f"the prefill of {store} failed: {done.stderr.strip()}")
    return taken
