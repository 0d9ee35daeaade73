"""estream bench scale: the same arena under models of growing size, each prefill in a memory control group."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from estream_lab.cgroup import run_in_group
from estream_lab.cli.bench.workplace import synthetic_store, workplace
from estream_lab.cli.options import positive, size
from estream_lab.errors import EStreamError
from estream_lab.models.synthetic import synthetic_spec
from estream_lab.streaming import Store


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the action."""
    action = actions.add_parser("scale", help="peak memory of one arena under synthetic models of growing size")
    action.add_argument(
        "--experts",
        type=positive,
        nargs="+",
        default=[16, 64, 256],
        metavar="E",
        help="experts a layer, of one model each (default 16 64 256)",
    )
    action.add_argument("--hidden", type=positive, default=1024, metavar="H", help="hidden size (default 1024)")
    action.add_argument("--ffn", type=positive, default=512, metavar="F", help="size within an expert (default 512)")
    action.add_argument("--layers", type=positive, default=4, metavar="L", help="layers (default 4)")
    action.add_argument("--top-k", type=positive, default=4, metavar="K", help="experts a token (default 4)")
    action.add_argument("--length", type=positive, default=256, metavar="T", help="tokens of the prompt (default 256)")
    action.add_argument("--group-size", type=positive, default=4, metavar="G", help="experts a group (default 4)")
    action.add_argument("--banks", type=positive, default=3, metavar="B", help="groups in the arena (default 3)")
    action.add_argument("--resident", action="store_true", help="also run with all experts resident, for comparison")
    action.add_argument("--memory-limit", type=size, metavar="SIZE", help="limit of the control group")
    action.add_argument(
        "--folder", type=Path, help="where the stores are made and kept (default: a temporary one in the user's cache)"
    )
    return action


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    for name, most in (("layers", 1000), ("length", 4096)):
        if getattr(options, name) > most:
            raise EStreamError(f"--{name} {getattr(options, name)} is more than a synthetic model has: {most} at most")
    fewest = min(options.experts)
    for name in ("top_k", "group_size"):
        if getattr(options, name) > fewest:
            given = f"--{name.replace('_', '-')} {getattr(options, name)}"
            raise EStreamError(f"{given} is more than the {fewest} experts of the smallest model: give more --experts")
    run_in_group(["true"])  # what can't be measured is said before anything is packed
    with workplace(options.folder) as folder:
        rows = scale(options, folder)
    if options.json:
        print(json.dumps({"rows": rows}))
        return 0
    for row in rows:
        print(
            f"{row['implementation']:9s} {row['experts']:4d} experts  store {row['store_bytes'] / 2**20:8.1f} MiB  "
            f"arena {row['arena_bytes'] / 2**20:6.1f} MiB  peak {row['peak_memory_bytes'] / 2**20:8.1f} MiB (with page "
            f"cache)  RSS {row['peak_rss_bytes'] / 2**20:8.1f} MiB  {row['tokens_per_second']:8.1f} tokens/s"
        )
    return 0


def scale(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """One row a model: the prefill's figures, its store's size and the group's peak memory in bytes."""
    stores = [_store(options, folder, experts) for experts in options.experts]
    # what every run shares (program files, compiled kernels) is in the page cache before the first counted run
    _prefill(options, stores[0], resident=False)
    rows = [_prefill(options, path, resident=False) for path in stores]
    return rows + [_prefill(options, path, resident=True) for path in stores if options.resident]


def _store(options: argparse.Namespace, folder: Path, experts: int) -> Path:
    shape = {name: getattr(options, name) for name in ("hidden", "ffn", "layers", "top_k")}
    return synthetic_store(folder, synthetic_spec(experts=experts, **shape))


def _prefill(options: argparse.Namespace, store: Path, *, resident: bool) -> dict[str, Any]:
    opened = Store(store)
    tokens = " ".join(str((7 * i + 3) % opened.spec.vocab) for i in range(options.length))
    command = [sys.executable, "-m", "estream_lab", "prefill", str(store), "--tokens", tokens, "--json"]
    command += ["--group-size", str(options.group_size), "--banks", str(options.banks)]
    done = run_in_group(command + ["--resident"] * resident, options.memory_limit)
    if done.status == -9:
        raise EStreamError(f"the prefill of {store} did not fit into the memory limit of {options.memory_limit} bytes")
    if done.status:
        raise EStreamError(f"the prefill of {store} failed: {done.stderr.strip()}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures | {
        "implementation": "resident" if resident else "streaming",
        "experts": opened.spec.experts,
        "store_bytes": opened.nbytes,
        "peak_memory_bytes": done.peak_memory_bytes,
    }
