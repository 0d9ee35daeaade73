"""Write the figures of ``results.json`` into ``README.md`` between its two markers; needs only Python.

python data/tiny_moe/report.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BEGIN = "<!-- figures of results.json: written by report.py -->"
END = "<!-- end of figures -->"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def per_layer(values: Iterable[float], digits: int = 2) -> str:
    """One value a layer, first layer first."""
    return " ".join(f"{value:.{digits}f}" for value in values)


def bits_table(results: dict[str, Any]) -> str:
    """Held-out bits per byte: gzip, the target, and each seed at both window lengths."""
    gzip, target = results["gzip_bits_per_byte"], results["target_bits_per_byte"]
    rows = [
        ["`gzip -9`", f"{gzip['text']:.2f}", f"{gzip['code']:.2f}", "", ""],
        ["target", f"{target['text']:.2f}", f"{target['code']:.2f}", "", ""],
    ]
    for run in results["runs"]:
        recipe, bits = run["recipe"], run["bits_per_byte"]
        shipped = ", shipped" if recipe["seed"] == results["shipped_seed"] else ""
        figures = [f"{bits[domain][length]:.3f}" for length in ("256", "1024") for domain in ("text", "code")]
        rows.append([f"seed {recipe['seed']}, {recipe['steps']} steps{shipped}", *figures])
    return table(["", "text, 256", "code, 256", "text, 1,024", "code, 1,024"], rows)


def routing_table(results: dict[str, Any]) -> str:
    """Per seed and layer: how far apart the domains' routes are, and over how many experts they spread."""
    rows = []
    for run in results["runs"]:
        for kind in ("trained", "control"):
            figures = run[kind]
            within = [max(pair) for pair in zip(figures["tv_within_text"], figures["tv_within_code"], strict=True)]
            rows.append(
                [
                    f"{run['recipe']['seed']}, {kind}",
                    per_layer(figures["tv_text_code"]),
                    per_layer(run["tv_ratio"], 1) if kind == "trained" else "",
                    per_layer(within),
                    per_layer(figures["effective_experts_mixed"], 1),
                    per_layer(figures["effective_experts_text"], 1),
                    per_layer(figures["effective_experts_code"], 1),
                ]
            )
    mean = results["over_seeds"]
    rows.append(["mean, trained", per_layer(mean["trained_tv"]), per_layer(mean["tv_ratio"], 1), "", "", "", ""])
    rows.append(["mean, control", per_layer(mean["control_tv"]), "", "", "", "", ""])
    header = ["seed", "TV text–code", "ratio to control", "TV within a domain", "experts, mixed", "text", "code"]
    return table(header, rows)


def figures(results: dict[str, Any]) -> str:
    """The whole block, without its markers."""
    size = f"{results['parameters']:,} parameters; the checkpoint's files are {results['checkpoint_bytes']:,} bytes."
    return f"{size}\n\n{bits_table(results)}\n{routing_table(results)}"


def main() -> None:
    """Replace the block in ``README.md``."""
    readme = HERE / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    _, after = rest.split(END)
    block = figures(json.loads((HERE / "results.json").read_text()))
    readme.write_text(f"{before}{BEGIN}\n\n{block}\n{END}{after}")


if __name__ == "__main__":
    main()
