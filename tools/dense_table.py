"""Read the held-out texts with dense weights of every quantisation, and print what that changes as Markdown.

    .venv/bin/python -m tools.dense_table    # the table of docs/attribution.md, a minute

What is computed: `estream_lab.evaluate.dense`.
"""

import argparse
from collections.abc import Sequence

from estream_lab.cli.options import positive
from estream_lab.evaluate.dense import DenseRow, dense_rows
from estream_lab.kernels.host import threads
from tools.command import ended
from tools.numerics_table import DATA, TEXTS

WINDOWS, LENGTH = 100, 256  # of each text, and predicted tokens of each


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--windows", type=positive, default=WINDOWS, help=f"of each text (default {WINDOWS})")
    parser.add_argument("--threads", type=positive, default=threads(), help="results don't depend on it")
    options = parser.parse_args()
    rows = dense_rows(DATA / "tiny_moe" / "checkpoint", TEXTS, options.windows, LENGTH, threads=options.threads)
    print("\n".join(table(rows, len(TEXTS) * options.windows, LENGTH)))


def table(rows: Sequence[DenseRow], windows: int, length: int) -> list[str]:
    """A row for each quantisation."""
    lines = [
        f"{windows} windows, {windows * length} tokens.",
        "",
        "| dense weights | in the store | in memory | bits a byte | error of the logits | routes flipped |"
        " divergence, bits | Δ perplexity |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines.append(
            f"| {row.quant} | {row.stored_bytes / 2**20:.2f} MiB | {row.held_bytes / 2**20:.2f} MiB |"
            f" {row.bits_per_byte:.4f} | {row.change.logits_error:.1e} | {100 * row.change.flip_share:.2f} % |"
            f" {row.change.divergence_bits:.1e} |"
            f" {row.change.perplexity_percent:+.3f} ± {row.change.perplexity_error:.3f} % |"
        )
    return lines


if __name__ == "__main__":
    raise SystemExit(ended(main))
