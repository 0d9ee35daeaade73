"""What each step of the device's arithmetic changes: errors, routes, bits, and perplexity beyond fp16's range."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.evaluate.attribution import Attribution
from estream_lab.evaluate.outliers import Scaled
from estream_lab.trace import Provenance
from estream_lab.viz.figures.signed_scale import SignedScale
from estream_lab.viz.figures.theme import GREY, PANEL_TITLE, SEQUENCE, dress, provenance_line

ROW = 21  # px
PANELS = ("error of a layer", "of the logits", "routes flipped, %", "divergence, bits", "Δ bits a byte")
SYMBOLS = ("circle", "diamond-open")
BITS = SignedScale(1e-6)
PERCENT = SignedScale(0.01)


def attribution_rows(routers: Mapping[str, Attribution], provenance: Provenance) -> go.Figure:
    """A row for each step alone, the steps one after the other, and the device under each profile.

    The first panel has the worst layer's error on equal inputs, the others compare whole runs: logits, routes, the
    next-token distributions, and the text's cost with its standard error, on a scale that is linear about 0. There is a
    mark for each labelled router; the logarithmic panels, of both errors and of the divergence, have none for a 0.
    """
    first = next(iter(routers.values()))
    places = list(range(len(first.rows)))
    figure = make_subplots(rows=1, cols=5, shared_yaxes=True, subplot_titles=PANELS, horizontal_spacing=0.03)
    figure.update_annotations(font_size=13)
    for number, (label, found) in enumerate(routers.items()):
        delta, errors = _delta(found)
        sides = (
            ([max(row.layer_error) or None for row in found.rows], "%{x:.1e}"),
            ([row.logits_error or None for row in found.rows], "%{x:.1e}"),
            ([100 * row.flip_share for row in found.rows], "%{x:.2f} %"),
            ([row.divergence_bits or None for row in found.rows], "%{x:.1e} bits"),
            (BITS.place(delta).tolist(), "%{customdata[1]:+.1e} ± %{customdata[2]:.1e}"),
        )
        for column, (values, form) in enumerate(sides, 1):
            figure.add_scatter(
                x=values,
                y=places,
                customdata=[[row.name, *sure] for row, *sure in zip(found.rows, delta, errors, strict=True)],
                error_x=BITS.error_bars(delta, errors) if column == len(sides) else None,
                mode="markers",
                name=label,
                legendgroup=label,
                showlegend=column == 1,
                cliponaxis=False,
                marker={"symbol": SYMBOLS[number % 2], "size": 9, "color": SEQUENCE[number]},
                hovertemplate=f"%{{customdata[0]}}, {label}<br>{form}<extra></extra>",
                row=1,
                col=column,
            )
    _row_axes(figure, routers)
    size = f"{first.windows} windows, {first.tokens} tokens"
    title = "Each step alone, one after the other, and the device"
    dress(figure, title, f"{provenance_line(provenance)} · {size}", ROW * len(places), PANEL_TITLE)
    return figure


def _delta(found: Attribution) -> tuple[list[float], list[float]]:
    """Each row's change of bits a byte, and its standard error."""
    return [row.delta_bits_per_byte for row in found.rows], [row.standard_error for row in found.rows]


def _row_axes(figure: go.Figure, routers: Mapping[str, Attribution]) -> None:
    rows = next(iter(routers.values())).rows
    figure.update_xaxes(tickangle=0, tickfont_size=11)
    for column, decades in ((1, 3), (2, 3), (4, 5)):
        figure.update_xaxes(type="log", exponentformat="power", dtick=decades, row=1, col=column)
    figure.update_xaxes(rangemode="tozero", nticks=4, row=1, col=3)
    ends = [end for each in routers.values() for d, e in zip(*_delta(each), strict=True) for end in (d - e, d + e)]
    decade = 10.0 ** np.floor(np.log10(max(map(abs, ends)) or BITS.unit))  # more ticks than it and 0 would touch
    figure.update_xaxes(zeroline=True, zerolinecolor=GREY, **BITS.ticks(min(ends), max(ends), decade, 9), row=1, col=5)
    figure.update_yaxes(tickvals=list(range(len(rows))), ticktext=[row.name for row in rows], ticks="")
    figure.update_yaxes(range=[len(rows) - 0.5, -0.5])
    for place in [i for i in range(1, len(rows)) if rows[i].group != rows[i - 1].group]:
        figure.add_hline(y=place - 0.5, line={"color": GREY, "width": 1, "dash": "dot"})


def outlier_curves(found: Sequence[Scaled], limit_percent: float, provenance: Provenance) -> go.Figure:
    """Change of perplexity by each step against the scale of a model's intermediate values: a panel for each scaling.

    Each with its standard error, on a scale that is linear about 0; below it, the text became cheaper.

    Args:
        found: of one or both routers: those that renormalise are dashed.
        limit_percent: a published change, drawn as a line.
        provenance: of the experiment.
    """
    kinds = list(dict.fromkeys(each.what for each in found))
    titles = {"swiglu": "SwiGLU results scaled by", "residual": "residual stream scaled by"}
    figure = make_subplots(rows=1, cols=len(kinds), shared_yaxes=True, subplot_titles=[titles[kind] for kind in kinds])
    figure.update_annotations(font_size=13)
    for column, kind in enumerate(kinds, 1):
        for renormalise in (False, True):
            chosen = [each for each in found if (each.what, each.renormalise) == (kind, renormalise)]
            for number, step in enumerate(chosen[0].steps if chosen else ()):
                curve = _curve(chosen, step)
                curve.update(
                    legendgroup=step,
                    showlegend=column == 1 and not renormalise,
                    line={"color": SEQUENCE[number % len(SEQUENCE)], "dash": "dash" if renormalise else "solid"},
                )
                figure.add_trace(curve, row=1, col=column)
    figure.add_hline(y=float(PERCENT.place([limit_percent])[0]), line={"color": GREY, "dash": "dot"})
    figure.update_xaxes(tickprefix="2^", dtick=2, tickangle=0)
    changes = [change for each in found for change in each.steps.values()]
    least = min(change.perplexity_percent - change.perplexity_error for change in changes)
    most = max(change.perplexity_percent + change.perplexity_error for change in changes)
    figure.update_yaxes(zeroline=True, zerolinecolor=GREY, **PERCENT.ticks(least, most, 0.1, 1))
    figure.update_yaxes(title_text="Δ perplexity, %", row=1, col=1)
    title = f"Beyond fp16's range (dotted: {limit_percent:g} %; dashed: renormalised)"
    size = f"{found[0].windows} windows, {found[0].tokens} tokens"
    return dress(figure, title, f"{provenance_line(provenance)} · {size}", 300, PANEL_TITLE)


def _curve(chosen: Sequence[Scaled], step: str) -> go.Scatter:
    """A step's changes over the scales."""
    changes = [each.steps[step].perplexity_percent for each in chosen]
    errors = [each.steps[step].perplexity_error for each in chosen]
    return go.Scatter(
        x=[each.log2 for each in chosen],
        y=PERCENT.place(changes).tolist(),
        error_y=PERCENT.error_bars(changes, errors),
        customdata=list(zip(changes, errors, strict=True)),
        mode="lines+markers",
        name=step,
        marker_size=6,
        hovertemplate=f"{step}, 2^%{{x}}<br>%{{customdata[0]:+.3f}} ± %{{customdata[1]:.3f}} %<extra></extra>",
    )
