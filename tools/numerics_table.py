"""Measure what each step of the device's arithmetic changes on the shipped model, and print it as Markdown.

    python -m tools.numerics_table            # the tables of docs/attribution.md, some minutes
    python -m tools.numerics_table --record   # and the baselines in data/baselines, fast and full

The figures, how they are measured and how far they may drift: `estream_lab.evaluate.regression`.
"""

import argparse
import json
from pathlib import Path

from estream_lab.evaluate.attribution import Attribution
from estream_lab.evaluate.outliers import Scaled
from estream_lab.evaluate.regression import FAST, FULL, Measured, measure

DATA = Path(__file__).parents[1] / "data"
BASELINE = DATA / "baselines" / "numerics_attribution.json"
TEXTS = tuple(DATA / "tiny_moe" / "heldout" / name for name in ("text.txt", "code.txt"))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the baselines as well")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    found = _measure(options.threads)
    print("\n".join(tables(found)))
    if options.record:
        recorded = {"fast": measure(DATA / "tiny_moe" / "checkpoint", TEXTS, FAST).to_json(), "full": found.to_json()}
        BASELINE.parent.mkdir(exist_ok=True)
        BASELINE.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


def _measure(threads: int) -> Measured:
    return measure(DATA / "tiny_moe" / "checkpoint", TEXTS, FULL, threads=threads)


def tables(found: Measured) -> list[str]:
    """All tables, each with its heading."""
    lines = []
    for name, attribution in found.routers.items():
        lines += [f"### Router {name}", "", *rows_table(attribution), ""]
    for name in found.routers:
        chosen = [each for each in found.outliers if each.renormalise == (name == "renormalised")]
        lines += [f"### Scaled values, router {name}", "", *outliers_table(chosen), ""]
    return lines[:-1]


def rows_table(found: Attribution) -> list[str]:
    """A row for each case; errors are those of the worst layer."""
    lines = [
        f"{found.windows} windows, {found.tokens} tokens, {found.routes_per_layer} routes a layer;"
        f" {found.bits_per_byte:.4f} bits a byte with Q4_0 weights and all steps off.",
        "",
        "| | step | error | routes flipped | divergence, bits | Δ bits a byte | Δ perplexity |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in found.rows:
        flips = " ".join(map(str, row.layer_flips))
        lines.append(
            f"| {row.group} | {row.name} | {max(row.layer_error):.1e} | {100 * row.flip_share:.2f} % ({flips}) |"
            f" {row.divergence_bits:.1e} | {row.delta_bits_per_byte:+.1e} ± {row.standard_error:.0e} |"
            f" {row.perplexity_percent:+.4f} % |"
        )
    return lines


def outliers_table(found: list[Scaled]) -> list[str]:
    """Change of perplexity by each step, for each scale."""
    steps = list(found[0].perplexity_percent)
    lines = [
        "| scaled | by | " + " | ".join(steps) + " | routes flipped by the device |",
        "|---|---|" + "---:|" * (len(steps) + 1),
    ]
    for each in found:
        values = " | ".join(f"{each.perplexity_percent[step]:+.3f} %" for step in steps)
        lines.append(f"| {each.what} | 2^{each.log2} | {values} | {100 * each.flip_share['the device']:.2f} % |")
    return lines


if __name__ == "__main__":
    main()
