"""estream bench kernels: our kernels and peers on MoE layers, in turn, in one run."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from estream_lab.bench import KINDS, PEERS, SHAPES, TOKENS, compare, peaks
from estream_lab.bench.load import LARGEST
from estream_lab.bench.memory import file_bytes
from estream_lab.bench.peaks import READ
from estream_lab.bench.peers import check_installed
from estream_lab.cli.bench.bar import PartsBar
from estream_lab.cli.bench.workplace import workplace
from estream_lab.cli.options import positive
from estream_lab.cli.results import check_results
from estream_lab.errors import EStreamError
from estream_lab.kernels.host import set_threads, thread_limit
from estream_lab.machine import available_cpus
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
    action.add_argument(
        "--threads", type=positive, metavar="N", help="of every row (default: all processors that this process may use)"
    )
    action.add_argument("--rounds", type=positive, default=5, metavar="N", help="timed calls of every row (default 5)")
    action.add_argument(
        "--competitor",
        type=positive,
        default=0,
        metavar="N",
        help="time every row as often again beside N busy processes: what they cost each",
    )
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
    check_installed(options.peer)
    if options.competitor > (most := MOST_COMPETITORS * available_cpus()):
        raise EStreamError(f"--competitor {options.competitor} is more than {most}, which is enough: give fewer")
    threads = options.threads or thread_limit()
    set_threads(threads)  # refuses more than there are before anything is prepared
    shapes = [SHAPES[name] for name in dict.fromkeys(options.shape or ["olmoe"])]
    tokens = list(dict.fromkeys(options.tokens or [1024]))
    kinds = list(dict.fromkeys(options.activations or KINDS))
    needed = max(file_bytes(shape, max(tokens), len(kinds)) for shape in shapes)
    with workplace(None, needed) as folder, PartsBar() as bar:
        found = compare(
            shapes, tokens, options.peer,
            threads=threads, rounds=options.rounds, kinds=kinds, folder=folder, peaks=peaks, progress=bar.show,
            competitors=options.competitor,
        )  # fmt: skip
    if options.output is not None:
        write_atomically(options.output, json.dumps(found, indent=1).encode() + b"\n")
    print(json.dumps(found) if options.json else table(found))
    return 0


MOST_COMPETITORS = 16
"""Busy processes for each processor: with more, a round takes minutes and tells nothing new."""

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
    ("a token", 8),
)
SLOWDOWN = ("x busy", 7)


def table(found: dict[str, Any]) -> str:
    """The comparison for people: times are given in parts of ours, of ggml's default and of its fastest."""
    columns = [*COLUMNS, *([SLOWDOWN] if found["competitors"] else [])]
    lines = [
        f"measured on {found['machine']}, {found['threads']} threads, load {found['load_before']:.2f} to "
        f"{found['load_after']:.2f}, medians of {found['rounds']} rounds; error: relative L2, and of the worst token, "
        f"activations {next(iter(found['rows'][0]['relative_errors']))}",
        *disturbed(found),
        *_peaks(found["peak"]),
        *(
            f"{name}: {build.get('system_info') or build.get('features')}"
            for name, build in found["peer_build"].items()
        ),
        *_cleared(found),
    ]
    if found["competitors"]:
        lines.append(
            f"x busy: time beside {found['competitors']} busy processes, in parts of that without in the same round"
        )
    for shape, tokens in dict.fromkeys((row["shape"], row["tokens"]) for row in found["rows"]):
        lines += ["", f"{shape}, {tokens} tokens", " ".join(f"{title:>{width}}" for title, width in columns)]
        rows = [row for row in found["rows"] if (row["shape"], row["tokens"]) == (shape, tokens)]
        lines += [_row(row, columns) for row in rows]
        missing = [row for row in found["unsupported"] if (row["shape"], row["tokens"]) == (shape, tokens)]
        lines += [f"{_name(row):>{COLUMNS[0][1]}} {row['reason']}" for row in missing]
    return "\n".join(lines)


def _peaks(peak: dict[str, float]) -> list[str]:
    """What this machine reached in this run, of arithmetic and of memory."""
    return [
        f"measured reads from memory: {rate / 1e9:.1f} GB/s"
        if kind == READ
        else f"measured peak of {kind} in registers: {rate / 1e9:.0f} GMAC/s"
        for kind, rate in peak.items()
    ]


def disturbed(found: dict[str, Any]) -> list[str]:
    """A line where others took this computer's time: threads that wait for each other by spinning lose most by that."""
    most = max(found["other_load"])
    if most <= LARGEST:
        return []
    return [
        f"other programs took up to {100 * most:.0f} % of this computer in a round: take figures from a run on an idle "
        "one"
    ]


def _cleared(found: dict[str, Any]) -> list[str]:
    """A line where peers don't get what is set here."""
    names = list(found["environment"]["cleared"])
    return [f"peers run without {', '.join(names)}"] if names else []


def _name(row: dict[str, Any]) -> str:
    return f"{row['implementation']} {row['name']}"


def _row(row: dict[str, Any], columns: Sequence[tuple[str, int]]) -> str:
    fraction = row["fraction_of_peak"]
    cells = [
        _name(row),
        row["arithmetic"],
        f"{row['seconds_median']:.4f}",
        f"{row['macs_per_second'] / 1e9:.1f}",
        "-" if fraction is None else f"{fraction:.2f}",
        *("-" if row[key] is None else f"{row[key]:.2f}" for key in ("times_ours", "times_default", "times_fastest")),
        f"{row['relative_error']:.4f}",
        f"{row['token_error']:.4f}",
        *([f"{row['slowdown']:.2f}"] if SLOWDOWN in columns else []),
    ]
    line = " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, columns, strict=True))
    marks = [mark for mark in ("default", "fastest") if row[mark]]
    return f"{line}  {', '.join(marks)}".rstrip()
