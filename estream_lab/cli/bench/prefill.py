"""estream bench prefill: whole prefills, ours and llama.cpp's, with the same weights, in turn, in one run."""

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from estream_lab.bench.peers import PREFILL_PEERS, check_installed
from estream_lab.bench.prefill import compare_prefill
from estream_lab.bench.prefill.sizes import check_memory, file_bytes
from estream_lab.cli.bench.bar import PartsBar
from estream_lab.cli.bench.kernels import disturbed
from estream_lab.cli.bench.workplace import synthetic_store, workplace
from estream_lab.cli.options import positive
from estream_lab.cli.results import check_results
from estream_lab.errors import EStreamError
from estream_lab.kernels.host import set_threads, thread_limit
from estream_lab.models.spec import ModelSpec
from estream_lab.models.synthetic import synthetic_spec
from estream_lab.streaming import Store
from estream_lab.streaming.dense import DENSE_QUANTS, KEEP
from estream_lab.trace import write_atomically


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the action."""
    action = actions.add_parser(
        "prefill", help="whole prefills of random weights in OLMoE's sizes, ours and llama.cpp's"
    )
    action.add_argument(
        "--peer",
        choices=PREFILL_PEERS,
        nargs="+",
        action="extend",
        default=[],
        help="what to compare with: its default and the fastest of its quantisations, repacked or not, micro-batches "
        "and kinds of attention; its environment is made with `make peers`",
    )
    action.add_argument("--tokens", type=positive, default=1024, metavar="T", help="of a prompt (default 1024)")
    for name, default, what in (
        ("hidden", 2048, "hidden size"),
        ("ffn", 1024, "size within an expert"),
        ("layers", 4, "layers"),
        ("experts", 64, "experts a layer"),
        ("top-k", 8, "experts a token"),
        ("vocab", 50304, "token ids"),
    ):
        action.add_argument(f"--{name}", type=positive, default=default, help=f"{what} (default {default})")
    action.add_argument(
        "--dense-quant",
        choices=[KEEP, *DENSE_QUANTS],
        default=KEEP,
        help="of our rows' dense weights (default: keep, float32); a peer quantises by itself",
    )
    action.add_argument(
        "--threads", type=positive, metavar="N", help="of every row (default: all processors that this process may use)"
    )
    action.add_argument("--rounds", type=positive, default=5, metavar="N", help="timed runs of every row (default 5)")
    action.add_argument(
        "--folder",
        type=Path,
        help="where the store and a peer's files are made and kept, which takes minutes (default: a temporary folder "
        "in the user's cache)",
    )
    action.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="write the figures as well")
    return action


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    check_results({"--output": options.output}, {})
    spec = _spec(options)
    check_installed(options.peer)
    check_memory(spec, peer=bool(options.peer), dense_quant=options.dense_quant)
    threads = options.threads or thread_limit()
    set_threads(threads)  # refuses more than there are before anything is prepared
    with ExitStack() as stack:
        kept = stack.enter_context(workplace(options.folder, _room(options, spec)))
        store = Store(synthetic_store(kept, spec, options.dense_quant))
        if store.spec != spec:
            raise EStreamError(f"{store.path} is a store of another model: give another --folder, or remove it")
        folder = kept if options.folder is None else stack.enter_context(workplace(None))
        bar = stack.enter_context(PartsBar())
        found = compare_prefill(
            store, options.tokens, options.peer,
            threads=threads, rounds=options.rounds, folder=folder, files=kept, progress=bar.show,
        )  # fmt: skip
    if options.output is not None:
        write_atomically(options.output, json.dumps(found, indent=1).encode() + b"\n")
    print(json.dumps(found) if options.json else table(found))
    return 0


def _room(options: argparse.Namespace, spec: ModelSpec) -> int:
    """Bytes that files will take; of a kept folder nothing is known, for an earlier run may have made them."""
    if options.folder is not None:
        return 0
    return file_bytes(spec, peer=bool(options.peer), dense_quant=options.dense_quant)


def _spec(options: argparse.Namespace) -> ModelSpec:
    """The model, refused before anything is made of it."""
    if options.top_k > options.experts:
        raise EStreamError(f"--top-k {options.top_k} is more than the {options.experts} experts: give more --experts")
    shape = {name: getattr(options, name) for name in ("hidden", "ffn", "layers", "experts", "top_k", "vocab")}
    spec = synthetic_spec(heads=max(1, options.hidden // 128), **shape)  # OLMoE: 16 of 128
    if options.tokens > spec.context:
        raise EStreamError(f"--tokens {options.tokens} is more than the model's context of {spec.context}")
    for name, multiple in (("hidden", 256), ("ffn", 256)):
        if options.peer and shape[name] % multiple:
            raise EStreamError(
                f"--{name} {shape[name]} is no multiple of {multiple}, which llama.cpp's quantisations need with --peer"
            )
    return spec


COLUMNS = (
    ("", 48),
    ("tokens/s", 8),
    ("seconds", 8),
    ("x default", 9),
    ("x fastest", 9),
    ("error", 7),
    ("experts", 8),
)


def table(found: dict[str, Any]) -> str:
    """The comparison for people: tokens/s are given in parts of llama.cpp's default and of its fastest."""
    model = found["model"]
    lines = [
        f"{found['tokens']} tokens through {model['layers']} layers of {model['experts']} experts, hidden size "
        f"{model['hidden']}, {found['threads']} threads",
        f"measured on {found['machine']}, load {found['load_before']:.2f} to {found['load_after']:.2f}, medians of "
        f"{found['rounds']} rounds",
    ]
    lines += disturbed(found)
    for name, build in found["peer_build"].items():
        lines.append(f"{name}: {build['system_info']}")
        lines.append(f"{name} agrees on float32 weights: logits off by {found['agreement'][name]:.1e}")
    if found["sweep"]:
        slowest = max(form["seconds"] for form in found["sweep"])
        fastest = min(form["seconds"] for form in found["sweep"])
        lines.append(f"sweep: {len(found['sweep'])} forms, one run each: {fastest:.2f} to {slowest:.2f} s")
    lines += ["", " ".join(f"{title:>{width}}" for title, width in COLUMNS) + "  dense weights"]
    lines += [_row(row) for row in found["rows"]]
    lines += [f"{_name(row):>{COLUMNS[0][1]}} {row['reason']}" for row in found["unsupported"]]
    return "\n".join(lines)


def _name(row: dict[str, Any]) -> str:
    return f"{row['implementation']} {row['name']}"


def _row(row: dict[str, Any]) -> str:
    cells = [
        _name(row),
        f"{row['tokens_per_second']:.1f}",
        f"{row['seconds']:.3f}",
        *("-" if row[key] is None else f"{row[key]:.2f}" for key in ("of_default", "of_fastest")),
        f"{row['relative_error']:.4f}",
        row["experts"],
    ]
    line = " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, COLUMNS, strict=True))
    dense = row["dense"]
    same = len(set(dense.values())) == 1
    said = next(iter(dense.values())) if same else ", ".join(f"{kind} {quant}" for kind, quant in dense.items())
    marks = [mark for mark in ("default", "fastest") if row[mark]]
    return f"{line}  {said}{' (' + ', '.join(marks) + ')' if marks else ''}"
