"""estream bench schedules: the schedules against each other, against all experts resident, and against bare reads."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.cli.bench.comparison import compare
from estream_lab.cli.bench.synthetic import add_synthetic, synthetic_asked
from estream_lab.cli.bench.workplace import workplace
from estream_lab.cli.options import add_prompt, made_up_tokens, positive, prompt_tokens
from estream_lab.cli.results import check_results
from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.streaming import Store
from estream_lab.trace import write_atomically


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the action."""
    action = actions.add_parser("schedules", help="times and idle shares of the schedules, at several read bandwidths")
    action.add_argument("store", type=Path, nargs="?", metavar="STORE", help="a NAME.estream folder")
    add_synthetic(action)
    action.add_argument(
        "--folder", type=Path, help="where --synthetic is made and kept (default: a temporary one in the user's cache)"
    )
    add_prompt(action, required=False)
    action.add_argument(
        "--length",
        type=positive,
        default=256,
        metavar="T",
        help="without a prompt: so many made-up tokens (default 256)",
    )
    action.add_argument("--group-size", type=positive, default=4, metavar="G", help="experts a group (default 4)")
    action.add_argument("--banks", type=positive, default=6, metavar="B", help="groups in the arena (default 6)")
    action.add_argument("--queue-depth", type=positive, default=2, metavar="Q", help="outstanding reads (default 2)")
    action.add_argument("--threads", type=positive, metavar="N", help="compute threads (default: all processors)")
    action.add_argument(
        "--factors",
        type=_factor,
        nargs="*",
        default=[0.5, 1.0, 2.0],
        metavar="F",
        help="declared limits, in parts of the bandwidth at which reading takes as long as computing: below 1 storage "
        "binds, above 1 computing does (default 0.5 1 2)",
    )
    action.add_argument("--rounds", type=positive, default=5, metavar="N", help="runs of every row (default 5)")
    action.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="write every run's figures as well")
    return action


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.001 <= factor <= 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a factor between 0.001 and 1000")
    return factor


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    if (options.store is None) != options.synthetic:
        raise EStreamError("give a store, or --synthetic")
    check_results({"--output": options.output}, {"the store": options.store})
    if options.store is not None:
        found = _measure(Store(options.store), options)
    else:
        with workplace(options.folder) as folder:
            found = _measure(synthetic_asked(options, folder), options)
    if options.output is not None:
        write_atomically(options.output, json.dumps(found, indent=1).encode() + b"\n")
    print(json.dumps(found) if options.json else table(found))
    return 0


def _measure(store: Store, options: argparse.Namespace) -> dict[str, Any]:
    """With the settings that all rows share, as the engine completes them."""
    names = ("group_size", "banks", "queue_depth", "threads")
    with PrefillEngine.open(store, **{name: getattr(options, name) for name in names}) as engine:
        settings = {name: getattr(engine.settings, name) for name in names}
        tokens = _tokens(options, engine)
    return compare(store, tokens, settings, options.factors, options.rounds)


def _tokens(options: argparse.Namespace, engine: PrefillEngine) -> NDArray[np.int32]:
    """The prompt, or as many made-up tokens as are asked for: (T,)."""
    if options.prompt is not None or options.prompt_file is not None or options.tokens is not None:
        return prompt_tokens(options, engine)
    return made_up_tokens(options.length, engine.spec, "--length")


COLUMNS = (
    ("", 19),
    ("seconds", 8),
    ("of bound", 8),
    ("storage idle", 12),
    ("compute idle", 12),
    ("read MB", 9),
    ("needed MB", 9),
    ("speculative MB", 14),
    ("RSS MiB", 7),
)


def table(found: dict[str, Any]) -> str:
    """The comparison for people; a declared limit is said wherever it acts."""
    shape = f"G={found['group_size']} B={found['banks']} Q={found['queue_depth']}, {found['threads']} threads"
    resident = found["resident"]
    lines = [
        f"{found['model']}, {found['store_bytes'] / 1e6:.1f} MB, {found['tokens']} tokens, {shape}",
        f"measured on {found['machine']}, load {found['load_before']:.2f} to {found['load_after']:.2f}, medians of "
        f"{found['rounds']} rounds",
        f"all experts resident: {resident['seconds']:.3f} s, peak RSS {resident['peak_rss_bytes'] / 2**20:.0f} MiB",
    ]
    for limit in found["limits"]:
        declared, reads = limit["read_bandwidth"], f"bare reads {limit['bandwidth'] / 1e6:.1f} MB/s"
        at = f"limited to {declared / 1e6:.1f} MB/s (declared)" if declared else "at the disk's own speed"
        bound = f"bound {limit['bound_seconds']:.3f} s by {limit['binds']}"
        lines += ["", f"reads {at}: {reads}, {bound}", " ".join(f"{title:>{width}}" for title, width in COLUMNS)]
        lines += [_row(name, row) for name, row in limit["rows"].items()]
    return "\n".join(lines)


def _row(name: str, row: dict[str, Any]) -> str:
    cells = [
        name,
        f"{row['seconds']:.3f}",
        f"{row['ratio']:.3f}",
        *(f"{100 * row[key]:.1f} %" for key in ("storage_idle", "compute_idle")),
        *(f"{row[key] / 1e6:.1f}" for key in ("bytes_read", "bytes_needed", "bytes_speculative")),
        f"{row['peak_rss_bytes'] / 2**20:.0f}",
    ]
    return " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))
