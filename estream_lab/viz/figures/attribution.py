"""What each step of the device's arithmetic changes: errors, routes, bits, and perplexity beyond fp16's range."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.evaluate.attribution import Attribution
from estream_lab.evaluate.outliers import Scaled
from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import GREY, PANEL_TITLE, SEQUENCE, dress, provenance_line

ROW = 21  # px
PANELS = ("error of a layer", "routes flipped, %", "divergence, bits", "Δ bits a byte")
SYMBOLS = ("circle", "diamond-open")


def attribution_rows(routers: Mapping[str, Attribution], provenance: Provenance) -> go.Figure:
    """A row for each step alone, the steps one after the other, and the device under each profile.

    The first panel has the worst layer's error on equal inputs, the others compare whole runs: routes, the next-token
    distributions, and the text's cost with its standard error. A mark that is missing is a 0; a mark for each labelled
    router.
    """
    first = next(iter(routers.values()))
    places = list(range(len(first.rows)))
    figure = make_subplots(rows=1, cols=4, shared_yaxes=True, subplot_titles=PANELS, horizontal_spacing=0.03)
    figure.update_annotations(font_size=13)
    for number, (label, found) in enumerate(routers.items()):
        spread = [row.standard_error for row in found.rows]
        sides = (
            ([max(row.layer_error) or None for row in found.rows], "%{x:.1e}", None),
            ([100 * row.flip_share for row in found.rows], "%{x:.2f} %", None),
            ([row.divergence_bits or None for row in found.rows], "%{x:.1e} bits", None),
            ([row.delta_bits_per_byte for row in found.rows], "%{x:+.1e}", spread),
        )
        for column, (values, form, error) in enumerate(sides, 1):
            figure.add_scatter(
                x=values,
                y=places,
                customdata=[row.name for row in found.rows],
                error_x=None if error is None else {"array": error, "thickness": 1},
                mode="markers",
                name=label,
                legendgroup=label,
                showlegend=column == 1,
                cliponaxis=False,
                marker={"symbol": SYMBOLS[number % 2], "size": 9, "color": SEQUENCE[number]},
                hovertemplate=f"%{{customdata}}, {label}<br>{form}<extra></extra>",
                row=1,
                col=column,
            )
    figure.update_xaxes(tickangle=0)
    for column, decades in ((1, 2), (3, 4)):
        figure.update_xaxes(type="log", exponentformat="power", dtick=decades, row=1, col=column)
    figure.update_xaxes(rangemode="tozero", row=1, col=2)
    figure.update_xaxes(nticks=4, row=1, col=4)
    figure.update_yaxes(tickvals=places, ticktext=[row.name for row in first.rows], ticks="")
    figure.update_yaxes(range=[len(places) - 0.5, -0.5])
    groups = [row.group for row in first.rows]
    for place in [i for i in range(1, len(groups)) if groups[i] != groups[i - 1]]:
        figure.add_hline(y=place - 0.5, line={"color": GREY, "width": 1, "dash": "dot"})
    size = f"{first.windows} windows, {first.tokens} tokens"
    title = "Each step alone, one after the other, and the device"
    dress(figure, title, f"{provenance_line(provenance)} · {size}", ROW * len(places), PANEL_TITLE)
    return figure


def outlier_curves(found: Sequence[Scaled], limit_percent: float, provenance: Provenance) -> go.Figure:
    """Change of perplexity by each step against the scale of a model's intermediate values: a panel for each scaling.

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
            for number, step in enumerate(chosen[0].perplexity_percent if chosen else ()):
                figure.add_scatter(
                    x=[each.log2 for each in chosen],
                    y=[abs(each.perplexity_percent[step]) or None for each in chosen],
                    mode="lines+markers",
                    name=step,
                    legendgroup=step,
                    showlegend=column == 1 and not renormalise,
                    line={"color": SEQUENCE[number % len(SEQUENCE)], "dash": "dash" if renormalise else "solid"},
                    marker_size=6,
                    hovertemplate=f"{step}, 2^%{{x}}<br>%{{y:.3g}} %<extra></extra>",
                    row=1,
                    col=column,
                )
    figure.add_hline(y=limit_percent, line={"color": GREY, "dash": "dot"})
    figure.update_xaxes(tickprefix="2^", dtick=2, tickangle=0)
    figure.update_yaxes(type="log", exponentformat="power", dtick=2)
    figure.update_yaxes(title_text="|Δ perplexity|, %", row=1, col=1)
    title = f"Beyond fp16's range (dotted: {limit_percent:g} %; dashed: renormalised)"
    return dress(figure, title, provenance_line(provenance), 300, PANEL_TITLE)
