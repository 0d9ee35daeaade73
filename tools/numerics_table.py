"""Compute what each step of the device's arithmetic changes on the shipped model, and print it as Markdown.

    .venv/bin/python -m tools.numerics_table            # the tables of docs/attribution.md, some minutes
    .venv/bin/python -m tools.numerics_table --record   # and the baselines in data/baselines, fast and full
    .venv/bin/python -m tools.numerics_table --compare  # instead: how far the fast form is from its baseline

The last as a processor without AVX2 rounds NumPy's functions, on one that has it:

    NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4" .venv/bin/python -m tools.numerics_table --compare

What is computed: `estream_lab.evaluate.regression`; how far figures may drift: `estream_lab.evaluate.baseline`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from estream_lab.cli.options import positive
from estream_lab.evaluate.attribution import Attribution
from estream_lab.evaluate.baseline import figures
from estream_lab.evaluate.outliers import Scaled
from estream_lab.evaluate.regression import FAST, FULL, Computed, Size, compute
from estream_lab.evaluate.runs import Change
from estream_lab.evaluate.saturation import KINDS
from estream_lab.kernels.host import threads
from estream_lab.trace import check_writable, write_atomically
from tools.command import ended

DATA = Path(__file__).parents[1] / "data"
BASELINE = DATA / "baselines" / "numerics_attribution.json"
TEXTS = tuple(DATA / "tiny_moe" / "heldout" / name for name in ("text.txt", "code.txt"))


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--record", action="store_true", help="write the baselines as well")
    chosen.add_argument("--compare", action="store_true", help="print changes from the baseline of the fast form")
    parser.add_argument("--threads", type=positive, default=threads(), help="results don't depend on it")
    options = parser.parse_args()
    if options.record:
        check_writable(BASELINE)
    if options.compare:
        recorded = json.loads(BASELINE.read_text(encoding="utf-8"))["fast"]
        print("\n".join(comparison(_compute(FAST, options.threads).to_json(), recorded)))
        return
    found = _compute(FULL, options.threads)
    print("\n".join(tables(found)))
    if options.record:
        recorded = {"fast": _compute(FAST, options.threads).to_json(), "full": found.to_json()}
        write_atomically(BASELINE, json.dumps(recorded, indent=1, allow_nan=False).encode() + b"\n")


def _compute(size: Size, threads: int) -> Computed:
    return compute(DATA / "tiny_moe" / "checkpoint", TEXTS, size, threads=threads)


def tables(found: Computed) -> list[str]:
    """All tables, each with its heading."""
    lines = []
    for name, attribution in found.routers.items():
        lines += [f"### Router {name}", "", *rows_table(attribution), ""]
    for name, attribution in found.routers.items():
        lines += [f"### Errors layer by layer, router {name}", "", *errors_table(attribution), ""]
    lines += ["### One layer alone, router as trained", "", *layers_table(found.layers), ""]
    lines += ["### Order of the scatter", "", *orders_table([found.routers["as trained"], *found.orders]), ""]
    for name in found.routers:
        chosen = [each for each in found.outliers if each.renormalise == (name == "renormalised")]
        lines += [f"### Scaled values, router {name}", "", *scales_table(chosen), "", *outliers_table(chosen), ""]
    return lines[:-1]


def comparison(found: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    """How far figures are from their baseline, kind by kind, accumulators by themselves: the largest changes."""
    mine, theirs = figures(found), figures(recorded)
    kinds: dict[str, list[tuple[float, float]]] = {}
    for at in (at for at in theirs if at in mine):
        there, here = theirs[at], mine[at]
        if isinstance(here, str) or isinstance(there, str):
            continue
        kind = at.rsplit("/", 1)[1].split("[")[0]
        kinds.setdefault(f"{kind} of accumulators" if "accumulator" in at else kind, []).append((here, there))
    lines = [
        f"Functions round as {found['rounding']}, the baseline's as {recorded['rounding']}.",
        "",
        *_head("figure", values=("how many", "changed", "by at most", "of itself", "other sign")),
    ]
    for kind, pairs in kinds.items():
        moved = [abs(here - there) for here, there in pairs]
        share = max((abs(here / there - 1) for here, there in pairs if there), default=0.0)
        turned = sum(here * there < 0 for here, there in pairs)
        changed = sum(change > 0 for change in moved)
        lines.append(f"| {kind} | {len(pairs)} | {changed} | {max(moved):.1e} | {share:.1e} | {turned} |")
    return lines


def rows_table(found: Attribution) -> list[str]:
    """A row for each case; errors of experts are those of the worst layer."""
    lines = [
        f"{found.windows} windows, {found.tokens} tokens, {found.routes_per_layer} routes a layer;"
        f" {found.bits_per_byte:.4f} bits a byte with Q4_0 weights and all steps off.",
        "",
        *_head(
            "",
            "step",
            values=(
                "error of a layer", "of the logits", "routes flipped", "divergence, bits", "Δ bits a byte",
                "Δ perplexity",
            ),
        ),
    ]  # fmt: skip
    for row in found.rows:
        lines.append(
            f"| {row.group} | {row.name} | {max(row.layer_error):.1e} | {row.logits_error:.1e} | {_flips(row)} |"
            f" {row.divergence_bits:.1e} | {row.delta_bits_per_byte:+.1e} ± {row.standard_error:.0e} |"
            f" {row.perplexity_percent:+.4f} % |"
        )
    return lines


def errors_table(found: Attribution) -> list[str]:
    """The error of each layer's experts on equal inputs, of steps alone and of the whole device."""
    layers = range(len(found.rows[0].layer_error))
    lines = _head("", "step", values=[f"layer {layer}" for layer in layers])
    for row in found.rows:
        if row.group != "alone" and not row.name.endswith("the device"):
            continue
        lines.append(f"| {row.group} | {row.name} | " + " | ".join(f"{error:.1e}" for error in row.layer_error) + " |")
    return lines


def layers_table(found: Mapping[str, Sequence[Change]]) -> list[str]:
    """Logits' error and divergence where a step is on in one layer alone."""
    layers = range(len(next(iter(found.values()))))
    lines = [
        "Error of the logits, divergence in bits; in bold the layer whose divergence is largest.",
        "",
        *_head("on in one layer", values=[f"layer {layer}" for layer in layers]),
    ]
    for name, changes in found.items():
        most = max(change.divergence_bits for change in changes)
        cells = []
        for change in changes:
            cell = f"{change.logits_error:.1e}, {change.divergence_bits:.1e}"
            cells.append(f"**{cell}**" if change.divergence_bits == most else cell)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def orders_table(found: Sequence[Attribution]) -> list[str]:
    """What float32 sums and their order change, with more and more experts a token."""
    columns = ("error of a layer", "of the logits", "routes flipped", "divergence, bits", "Δ bits a byte")
    lines = _head("experts a token", "step", values=columns)
    for attribution in found:
        for row in attribution.rows:
            if row.name in ("fp32 scatter", "scatter reversed"):
                lines.append(
                    f"| {attribution.top_k} | {row.name} | {max(row.layer_error):.1e} | {row.logits_error:.1e} |"
                    f" {_flips(row)} | {row.divergence_bits:.1e} |"
                    f" {row.delta_bits_per_byte:+.1e} ± {row.standard_error:.0e} |"
                )
    return lines


def scales_table(found: Sequence[Scaled]) -> list[str]:
    """Of each scale, the run that its steps are compared with, and how many of its values fp16 can't hold."""
    first = found[0]
    lines = [
        f"{first.windows} windows, {first.tokens} tokens. Beyond fp16: of so many values with all steps off.",
        "",
        *_head("scaled", "by", values=("off, bits a byte", *(f"{kind} beyond fp16" for kind in KINDS))),
    ]
    for each in found:
        counts = " | ".join(f"{each.beyond[kind]} of {each.values[kind]}" for kind in KINDS)
        lines.append(f"| {each.what} | 2^{each.log2} | {each.bits_per_byte:.5f} | {counts} |")
    return lines


def outliers_table(found: Sequence[Scaled]) -> list[str]:
    """Change of perplexity by each step, for each scale, with its standard error."""
    steps = list(found[0].steps)
    lines = _head("scaled", "by", values=(*(f"{step}, %" for step in steps), "routes flipped by the device"))
    for each in found:
        changes = [each.steps[step] for step in steps]
        values = " | ".join(f"{c.perplexity_percent:+.3f} ± {c.perplexity_error:.3f}" for c in changes)
        share = 100 * each.steps["the device"].flip_share
        lines.append(f"| {each.what} | 2^{each.log2} | {values} | {share:.2f} % |")
    return lines


def _head(*names: str, values: Sequence[str]) -> list[str]:
    """The heading of a table: columns of names, then of values."""
    return [
        f"| {' | '.join((*names, *values))} |".replace("|  |", "| |"),
        "|" + "---|" * len(names) + "---:|" * len(values),
    ]


def _flips(change: Change) -> str:
    """The share of routes that flip, and how many do in each layer."""
    return f"{100 * change.flip_share:.2f} % ({' '.join(map(str, change.layer_flips))})"


if __name__ == "__main__":
    raise SystemExit(ended(main, left="the baselines are as they were"))
