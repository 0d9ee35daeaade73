import numpy as np
import pytest

from estream_lab.routing import synthetic_routes
from estream_lab.viz.explore import RoutingExplorer
from tests.viz.hand_made import drawn, plain

PADDING, LOADS, KEPT = 0, 1, 2


def heights(explorer: RoutingExplorer, area: int) -> np.ndarray:
    """Of each expert, busiest first, as the live figure shows it; its outline goes on beyond both ends."""
    shown = explorer.live.shown.data[area]
    assert list(shown.x) == list(range(explorer.values["experts"] + 2))
    return np.asarray(shown.y, int)[1:-1]


def loads(explorer: RoutingExplorer) -> list[int]:
    """Routes of each expert, busiest first."""
    return heights(explorer, LOADS).tolist()


def expected(explorer: RoutingExplorer, seed: int = 3) -> list[int]:
    v = explorer.values
    routes = synthetic_routes(v["tokens"], v["experts"], min(v["top_k"], v["experts"]), alpha=v["alpha"], seed=seed)
    return sorted(np.bincount(routes.expert, minlength=v["experts"]).tolist(), reverse=True)


def test_every_slider_changes_the_loads_that_are_drawn() -> None:
    explorer = RoutingExplorer(tokens=64, experts=16, top_k=2, seed=3)
    assert loads(explorer) == expected(explorer)
    for name, value in (("alpha", 0.5), ("tokens", 128), ("experts", 32), ("top_k", 5)):
        before = loads(explorer)
        explorer.controls[name].value = value
        assert loads(explorer) == expected(explorer) != before
        assert plain(explorer.live.shown)["data"] == drawn(explorer)["data"]


def test_the_capacity_decides_what_is_dropped() -> None:
    explorer = RoutingExplorer(tokens=64, experts=16, top_k=2, factor=1.0, seed=3)
    counts = np.array(expected(explorer))
    assert sum(heights(explorer, LOADS) - heights(explorer, KEPT)) == np.maximum(counts - 8, 0).sum() > 0
    assert f"{np.maximum(counts - 8, 0).sum()} routes dropped" in explorer.line.value
    explorer.controls["factor"].value = 2.5
    assert sum(heights(explorer, LOADS) - heights(explorer, KEPT)) == np.maximum(counts - 20, 0).sum()
    assert sum(heights(explorer, PADDING) - heights(explorer, LOADS)) == np.maximum(20 - counts, 0).sum()
    assert f"{np.maximum(20 - counts, 0).sum()} rows of padding" in explorer.line.value


def test_more_choices_than_experts_are_all_of_them() -> None:
    explorer = RoutingExplorer(tokens=8, experts=4, top_k=16)
    assert loads(explorer) == [8, 8, 8, 8]
    assert "8 · 4 = 32 routes reach 4 of 4 experts" in explorer.line.value


def test_values_beside_the_usual_steps_are_steps_too() -> None:
    values = {"alpha": 2.7, "tokens": 100, "experts": 10, "top_k": 3, "factor": 1.3}
    assert RoutingExplorer(**values).values == values


def test_the_static_figure_tells_its_settings_and_the_live_title_never_changes() -> None:
    explorer = RoutingExplorer(tokens=64, experts=16, top_k=2, factor=2.0)
    title = explorer.head.value
    explorer.controls["factor"].value = 1.5
    assert explorer.head.value == title
    first, *rest = explorer.figure.layout.title.subtitle.text.split("<br>")
    assert first == "α=3 T=64 E=16 k=2 · capacity factor 1.5"
    assert rest[0] == "synthetic · seed 0 · Dirichlet popularity, Gumbel top-k"
    assert "Loads against a fixed capacity</div>" + "<br>".join(rest) in title


def test_an_impossible_number_is_refused_when_the_explorer_is_made() -> None:
    with pytest.raises(ValueError, match="cannot draw 0 of 0"):
        RoutingExplorer(experts=0, top_k=5)
