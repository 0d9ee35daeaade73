import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import plotly.graph_objects as go
import pytest

from estream_lab.routing import Routes
from estream_lab.trace import Trace
from estream_lab.viz import figures
from estream_lab.viz.figures.theme import CLEAR, COLOURS, GREY, provenance_line

from . import test_attribution_figures as attribution
from . import test_bubble_figures as pipeline
from . import test_choice_figures as choices
from . import test_compaction_figures as bound
from . import test_paper_figures as paper
from . import test_protocol_figures as protocol
from . import test_rival_figures as rivals
from . import test_routing_figures as routing
from . import test_tile_figures as tiles
from .hand_made import PLACEMENT, PROVENANCE, ROUTES, binding, trace


@dataclass(frozen=True)
class Run:
    schedule: str
    group_size: int
    banks: int
    queue_depth: int
    seconds: float
    arena_bytes: int
    logits_sha256: str
    memory: dict[str, int]
    trace: Trace


MEMORY = {
    "arena": 3 * 2**20,
    "weights": 2**20,
    "kv": 512,
    "activations": 2**19,
    "kernels": 2**19,
    "interpreter": 150 * 2**20,
    "unaccounted": 2**21,
}
RUN = Run("early", 2, 2, 2, 0.0301, 3 * 2**20, "ab" * 32, MEMORY, trace())
OTHER = replace(
    RUN,
    schedule="resident",
    arena_bytes=12 * 2**20,
    memory=MEMORY | {"arena": 12 * 2**20, "unaccounted": -(2**20)},
)
LAYERS = {4: ROUTES, 7: Routes(ROUTES.token, np.zeros(6, np.int32), ROUTES.weight)}
DRAWN: dict[str, Callable[[], go.Figure]] = {
    "attribution_rows": lambda: figures.attribution_rows({"as trained": attribution.FOUND}, PROVENANCE),
    "compaction": lambda: figures.compaction(ROUTES, PLACEMENT, binding(), PROVENANCE),
    "equality_table": lambda: figures.equality_table([RUN, OTHER]),
    "idle_bars": lambda: figures.idle_bars({"early": trace(), "again": trace()}),
    "memory_bars": lambda: figures.memory_bars([("a", {"arena": 5}), ("b", {"other": 2})], PROVENANCE),
    "outlier_curves": lambda: figures.outlier_curves([attribution.OUTLIER], 5.51, PROVENANCE),
    "next_tokens": lambda: figures.next_tokens([(101, "e", -0.5), (32, " ", -1.5)], PROVENANCE),
    "route_load": lambda: figures.route_load(LAYERS, 6, PROVENANCE),
    "routes_heatmap": lambda: figures.routes_heatmap(LAYERS, 6, PROVENANCE),
    "run_memory": lambda: figures.run_memory({"early": RUN, "resident": OTHER}),
    "timeline": lambda: figures.timeline({"early": trace()}),
    **pipeline.DRAWN,
    **bound.DRAWN,
    **paper.DRAWN,
    **choices.DRAWN,
    **protocol.DRAWN,
    **rivals.DRAWN,
    **routing.DRAWN,
    **tiles.DRAWN,
}
ALL = {**DRAWN, **{name: draw for name, (draw, _) in choices.OF_THEIR_OWN.items()}}


def test_every_figure_is_held_here() -> None:
    assert sorted(DRAWN) == sorted(figures.__all__)


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_prints_the_origin_that_it_is_given(name: str) -> None:
    subtitle = DRAWN[name]().layout.title.subtitle.text
    assert "emulated · host lane · a &lt;fast> machine" in subtitle
    assert "reads limited to 20 MB/s (declared)" in subtitle


@pytest.mark.parametrize("name", choices.OF_THEIR_OWN)
def test_a_figure_that_knows_its_origin_prints_it(name: str) -> None:
    draw, origin = choices.OF_THEIR_OWN[name]
    assert origin in draw().layout.title.subtitle.text


@pytest.mark.parametrize("name", ALL)
def test_a_figure_has_no_background_and_is_the_same_each_time(name: str) -> None:
    figure = ALL[name]()
    layout = figure.layout.template.layout
    assert (layout.paper_bgcolor, layout.plot_bgcolor, layout.font.color) == (CLEAR, CLEAR, GREY)
    assert "sendChartToCloud" in layout.modebar.remove  # plotly.js 4 sends the data to its maker's server
    assert figure.to_json() == ALL[name]().to_json()
    assert len(figure.to_json()) < 20_000
    json.dumps(figure.to_plotly_json(), default=lambda array: array.tolist())


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", ["#ffffff", "#111111"])  # JupyterLab's light and dark page
def test_text_and_bars_stand_out_from_light_and_dark_pages(page: str) -> None:
    assert contrast(GREY, page) > 4.3
    for colour in COLOURS.values():
        if colour.startswith("#"):
            assert contrast(colour, page) > 2


def test_data_without_an_origin_says_so() -> None:
    assert provenance_line({}) == "origin not stated"
    assert provenance_line({"kind": "simulated"}) == "simulated"


def test_the_heatmap_counts_routes_and_leaves_idle_experts_empty() -> None:
    heat = DRAWN["routes_heatmap"]().data[0]
    assert np.array_equal(heat.z, [[1, 2, np.nan, np.nan, 2, 1], [6, *[np.nan] * 5]], equal_nan=True)
    assert list(heat.y) == [4, 7]
    assert "5 of 12 experts" in DRAWN["routes_heatmap"]().layout.title.text


def test_the_load_goes_from_busy_to_idle() -> None:
    lines = DRAWN["route_load"]().data
    assert [list(line.customdata) for line in lines] == [[2, 2, 1, 1, 0, 0], [6, 0, 0, 0, 0, 0]]
    assert [line.name for line in lines] == ["layer 4", "layer 7"]


def test_compaction_shows_the_worked_example() -> None:
    """Section 7 C: ψ = 2 1 1 3 2 0; c = 1 2 2 1; o = 0 1 3 5 6; Π = (2,5) | (0,1) (1,2) | (0,0) (2,4) | (1,3)."""
    psi, counts, before, upto, records, borders = DRAWN["compaction"]().data
    assert list(psi.y) == [2, 1, 1, 3, 2, 0]
    assert list(counts.x) == [1, 2, 2, 1]
    assert list(before.x) == list(upto.base) == [0, 1, 3, 5]
    assert list(upto.customdata) == [1, 3, 5, 6]
    assert list(records.y) == [5, 1, 2, 0, 4, 3]
    assert sorted(set(borders.x)) == [-0.5, 0.5, 2.5, 4.5, 5.5]
    assert [token for token, _ in records.customdata] == [2, 0, 1, 0, 2, 1]
    assert [slot for _, slot in records.customdata] == [0, 1, 1, 2, 2, 3]


def test_a_route_to_an_absent_expert_has_no_slot_and_no_record() -> None:
    placement = PLACEMENT.copy()
    placement[4] = -1
    bound = binding()
    figure = figures.compaction(ROUTES, placement, bound, PROVENANCE)
    assert list(figure.data[0].y) == [-1, 1, 1, 3, -1, 0]
    assert "none" in figure.layout.yaxis.ticktext


def test_the_table_tells_equal_from_different() -> None:
    assert list(DRAWN["equality_table"]().data[0].cells["values"][-1]) == ["✓ equal", "✓ equal"]
    broken = figures.equality_table([RUN, replace(OTHER, logits_sha256="ff" * 32), RUN])
    assert list(broken.data[0].cells["values"][-1]) == ["✓ equal", "✗ differs", "✓ equal"]
    assert broken.layout.title.text == "These runs differ"
    assert list(broken.data[0].cells["values"][1]) == ["2", "–", "2"]
    assert list(broken.data[0].cells["values"][4]) == ["3.0 MiB", "12.0 MiB", "3.0 MiB"]


def test_idle_bars_are_the_metrics_in_per_cent() -> None:
    storage, compute = DRAWN["idle_bars"]().data
    assert list(storage.y) == [50, 50]
    assert list(compute.y) == pytest.approx([10, 10])


def test_memory_parts_add_up_to_the_total() -> None:
    figure = DRAWN["run_memory"]()
    names = ["expert arena", "other weights", "KV cache", "activations", "kernel scratch"]
    assert [bar.name for bar in figure.data] == names
    assert [sum(bar.x[i] for bar in figure.data) for i in range(2)] == [a.x for a in figure.layout.annotations]
    assert [a.text for a in figure.layout.annotations] == ["<b>5.0 MiB</b>", "<b>14.0 MiB</b>"]


def test_the_whole_process_is_drawn_where_asked_for() -> None:
    """A part that was not all touched leaves less than nothing over, and no bar."""
    figure = figures.run_memory({"early": RUN, "resident": OTHER}, process=True)
    assert [bar.name for bar in figure.data][-2:] == ["interpreter", "unaccounted"]
    assert [list(bar.x) for bar in figure.data][-2:] == [[150, 150], [2, 0]]
    assert len({bar.marker.color for bar in figure.data}) == 7
    assert [a.text for a in figure.layout.annotations] == ["<b>157.0 MiB</b>", "<b>164.0 MiB</b>"]


def test_next_tokens_are_probabilities() -> None:
    bar = DRAWN["next_tokens"]().data[0]
    assert list(bar.x) == pytest.approx([60.653, 22.313], rel=1e-4)
    assert bar.y[1] == "' '  (32)"
    assert DRAWN["next_tokens"]().layout.title.text == "Next token"
    named = figures.next_tokens([(101, "e", -0.5)], PROVENANCE, "x" * 90 + " of <the> tribes")
    assert named.layout.title.text == f"Next token after “…{'x' * 24} of &lt;the> tribes”"
