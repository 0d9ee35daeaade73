"""Tables of text, in the look of all figures."""

from collections.abc import Mapping, Sequence
from textwrap import wrap

import plotly.graph_objects as go

from estream_lab.viz.figures.theme import CLEAR, FAINT, GREY, dress

LINE, PADDING, HEADER = 19, 10, 34  # px
PAGE, CHARACTER = 840, 7.2  # px, of a notebook's output and of a letter in the mean


def table(
    columns: Mapping[str, Sequence[str]],
    widths: Sequence[int],
    title: str,
    subtitle: str,
    colours: Mapping[str, Sequence[str]] | None = None,
) -> go.Figure:
    """Columns of text, broken into lines where they are too long.

    Args:
        columns: heading to its cells, all of one length.
        widths: of the columns in relation to each other.
        colours: heading to the colours of its cells, where they aren't grey.
    """
    room = [PAGE * width / sum(widths) for width in widths]  # px
    cells = [[_lines(text, width) for text in texts] for texts, width in zip(columns.values(), room, strict=True)]
    rows = [max(text.count("<br>") + 1 for text in row) for row in zip(*cells, strict=True)]
    height = HEADER + sum(LINE * lines + PADDING for lines in rows)
    chart = go.Table(
        columnwidth=list(widths),
        header={
            "values": [f"<b>{name}</b>" for name in columns],
            "fill_color": FAINT,
            "line_color": FAINT,
            "align": "left",
            "font": {"color": GREY, "size": 13},
            "height": HEADER,
        },
        cells={
            "values": cells,
            "fill_color": CLEAR,
            "line_color": FAINT,
            "align": "left",
            "font": {"color": [(colours or {}).get(name, GREY) for name in columns], "size": 13},
            "height": LINE + PADDING,
        },
    )
    figure = dress(go.Figure(chart), title, subtitle, height)
    return figure.update_layout(margin={"l": 0, "r": 0, "b": 10}, height=figure.layout.margin.t + height + 20)


def _lines(text: str, width: float) -> str:
    """The text in lines of a column's width; plotly would cut the last ones off."""
    lines = wrap(text, max(1, int((width - 16) / CHARACTER)), break_on_hyphens=False)
    return "<br>".join(line.replace("&", "&amp;").replace("<", "&lt;") for line in lines) or " "
