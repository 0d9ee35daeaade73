"""One self-contained HTML file on a run: opens offline, with live figures."""

import html
from collections.abc import Mapping
from pathlib import Path

from plotly.offline import get_plotlyjs

from estream_lab.engine import PrefillResult
from estream_lab.trace import write_atomically
from estream_lab.viz.figures import next_tokens, routes_heatmap, run_memory, timeline
from estream_lab.viz.figures.memory import NAMES
from estream_lab.viz.figures.theme import GREY, mebibytes, milliseconds

# the page may run what it carries and fetch nothing
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, "Helvetica Neue", Arial, sans-serif; max-width: 980px; margin: 2rem auto;
       padding: 0 1rem; background: light-dark(#fff, #111); color: light-dark(#222, #ddd); }}
h1 {{ font-size: 1.5rem; font-weight: 600; margin-bottom: 0.2rem; }}
h2 {{ font-size: 1.1rem; font-weight: 600; margin-top: 2rem; }}
.tables {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 0 3rem; }}
table {{ border-collapse: collapse; }}
td {{ padding: 0.1rem 1rem 0.1rem 0; vertical-align: top; overflow-wrap: anywhere; }}
td:first-child {{ color: {grey}; white-space: nowrap; }}
</style>
<script>{plotly}</script>
</head>
<body>
<h1>{title}</h1>
<p>{lead}</p>
<div class="tables">
<section><h2>Figures</h2>{figures}</section>
<section><h2>Provenance</h2>{provenance}</section>
</div>
{plots}
</body>
</html>
"""


def write_report(result: PrefillResult, path: Path | str) -> None:
    """Write the run's figures, provenance, timeline, routes, memory and next tokens to one HTML file.

    The file carries plotly.js (about 5 MB) and asks the network for nothing. Raises `EStreamError` where it cannot be
    written.
    """
    provenance = result.trace.provenance
    drawn = {
        "timeline": timeline(result.trace),
        "routes": routes_heatmap(result.routes, result.total_experts // len(result.routes), provenance),
        "memory": run_memory({result.schedule: result}, process=True),
        "next": next_tokens(result.top, provenance),
    }
    plots = "\n".join(
        figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config={"displaylogo": False})
        for name, figure in drawn.items()
    )
    page = PAGE.format(
        policy=POLICY,
        grey=GREY,
        title=f"Prefill of {result.tokens} tokens, {html.escape(result.schedule)}",
        lead=html.escape(f"{provenance.get('model', '')}: {provenance.get('kind')} on {result.machine}."),
        plotly=get_plotlyjs(),
        figures=_table(_metrics(result)),
        provenance=_table(provenance),
        plots=plots,
    )
    write_atomically(path, page.encode())


def _metrics(result: PrefillResult) -> dict[str, str]:
    return {
        "time": milliseconds(round(result.seconds * 1e9)),
        "tokens per second": f"{result.tokens_per_second:.1f}",
        "storage idle": f"{result.storage_idle:.1%}",
        "compute idle": f"{result.npu_idle:.1%}",
        **{NAMES[part]: mebibytes(size) for part, size in result.memory.items()},
        f"peak RSS ({result.peak_rss_scope})": mebibytes(result.peak_rss_bytes),
        "planned peak": mebibytes(result.memory_planned_bytes),
        "memory budget": mebibytes(result.memory_budget_bytes) if result.memory_budget_bytes else "none",
        "read": mebibytes(result.bytes_read),
        "read early, not needed": mebibytes(result.bytes_speculative),
        "experts active": f"{result.active_experts} of {result.total_experts}",
        "graph builds, invocations": f"{result.graph_builds}, {result.invocations}",
        "SHA-256 of the logits": result.logits_sha256,
    }


def _table(rows: Mapping[str, object]) -> str:
    cells = (f"<tr><td>{html.escape(key)}</td><td>{html.escape(str(value))}</td></tr>" for key, value in rows.items())
    return f"<table>{''.join(cells)}</table>"
