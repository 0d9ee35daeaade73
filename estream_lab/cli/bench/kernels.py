"""estream bench kernels: our kernels and peers on MoE layers, in turn, in one run."""

import argparse
import json
from pathlib import Path
from typing import Any

from estream_lab.bench import KINDS, PEERS, SHAPES, TOKENS, compare, peaks
from estream_lab.cli.bench.bar import PartsBar
from estream_lab.cli.bench.workplace import workplace
from estream_lab.cli.options import positive
from estream_lab.cli.results import check_results
from estream_lab.kernels.host import set_threads, thread_limit
from estream_lab.trace import write_atomically


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the action."""
    action = actions.add_parser("kernels", help="our kernels and peers on one MoE layer, with errors against float64")
    action.add_argument(
        "--peer",
        choices=PEERS,
        nargs="+",
        action="extend",
        default=[],
        help="what to compare with; the environment of all peers is made with `make peers`",
    )
    action.add_argument("--shape", choices=SHAPES, nargs="+", action="extend", help="layers, by family (default olmoe)")
    action.add_argument(
        "--tokens",
        type=positive,
        nargs="+",
        action="extend",
        metavar="T",
        help=f"numbers of tokens (default 1024; the usual ones are {', '.join(map(str, TOKENS))})",
    )
    action.add_argument("--threads", type=positive, metavar="N", help="of every row (default: all processors)")
    action.add_argument("--rounds", type=positive, default=5, metavar="N", help="timed calls of every row (default 5)")
    action.add_argument(
        "--activations",
        choices=KINDS,
        nargs="+",
        action="extend",
        help="kinds that errors are taken for (default all); channels of lognormal sizes, or one in 512 thirty times "
        "as large; times are taken on gaussian ones",
    )
    action.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="write the figures as well")
    action.set_defaults(folder=None)
    return action


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    check_results({"--output": options.output}, {})
    threads = options.threads or thread_limit()
    set_threads(threads)  # refuses more than there are before anything is prepared
    with workplace(None) as folder, PartsBar() as bar:
        found = compare(
            [SHAPES[name] for name in dict.fromkeys(options.shape or ["olmoe"])],
            list(dict.fromkeys(options.tokens or [1024])), options.peer,
            threads=threads, rounds=options.rounds, kinds=list(dict.fromkeys(options.activations or KINDS)),
            folder=folder, peaks=peaks,
            progress=bar.show,
        )  # fmt: skip
    if options.output is not None:
        write_atomically(options.output, json.dumps(found, indent=1).encode() + b"\n")
    print(json.dumps(found) if options.json else table(found))
    return 0


IDLE_LOAD = 0.5
"""Load average up to which a computer counts as idle."""

COLUMNS = (
    ("", 23),
    ("arithmetic", 10),
    ("seconds", 9),
    ("GMAC/s", 8),
    ("of peak", 8),
    ("x ours", 7),
    ("x default", 9),
    ("x fastest", 9),
    ("error", 8),
)


def table(found: dict[str, Any]) -> str:
    """The comparison for people: times are given in parts of ours, of ggml's default and of its fastest."""
    lines = [
        f"measured on {found['machine']}, {found['threads']} threads, load {found['load_before']:.2f} to "
        f"{found['load_after']:.2f}, medians of {found['rounds']} rounds; error: relative L2, activations "
        f"{next(iter(found['rows'][0]['relative_errors']))}",
        *_disturbed(found),
        *(f"measured peak of {kind} in registers: {rate / 1e9:.0f} GMAC/s" for kind, rate in found["peak"].items()),
        *(
            f"{name}: {build.get('system_info') or build.get('features')}"
            for name, build in found["peer_build"].items()
        ),
    ]
    for shape, tokens in dict.fromkeys((row["shape"], row["tokens"]) for row in found["rows"]):
        lines += ["", f"{shape}, {tokens} tokens", " ".join(f"{title:>{width}}" for title, width in COLUMNS)]
        rows = [row for row in found["rows"] if (row["shape"], row["tokens"]) == (shape, tokens)]
        lines += [_row(row) for row in rows]
        missing = [row for row in found["unsupported"] if (row["shape"], row["tokens"]) == (shape, tokens)]
        lines += [f"{_name(row):>{COLUMNS[0][1]}} {row['reason']}" for row in missing]
    return "\n".join(lines)


def _disturbed(found: dict[str, Any]) -> list[str]:
    """Peers whose threads wait for each other by spinning lose most to other processes: such a run is no comparison."""
    # its own threads make the load that is there afterwards
    if found["load_before"] <= IDLE_LOAD and found["load_after"] <= IDLE_LOAD + found["threads"]:
        return []
    return ["other programs were running: take figures from a run on an idle computer"]


def _name(row: dict[str, Any]) -> str:
    return f"{row['implementation']} {row['name']}"


def _row(row: dict[str, Any]) -> str:
    fraction = row["fraction_of_peak"]
    cells = [
        _name(row),
        row["arithmetic"],
        f"{row['seconds_median']:.4f}",
        f"{row['macs_per_second'] / 1e9:.1f}",
        "-" if fraction is None else f"{fraction:.2f}",
        *("-" if row[key] is None else f"{row[key]:.2f}" for key in ("times_ours", "times_default", "times_fastest")),
        f"{row['relative_error']:.4f}",
    ]
    line = " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))
    marks = [mark for mark in ("default", "fastest") if row[mark]]
    return f"{line}  {', '.join(marks)}".rstrip()
