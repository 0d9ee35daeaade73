"""The recurrence explorer: every control reaches the layer, and the line tells the path and every time."""

from dataclasses import replace

import pytest

from estream_lab.simulate import ScheduledLayer
from estream_lab.viz.explore import RecurrenceExplorer
from tests.viz.hand_made import same

A = ScheduledLayer((4, 4, 4, 4), (2, 3, 1, 2), 5, banks=2, queue_depth=2)
B = ScheduledLayer((9, 1, 1, 1), (1, 1, 1, 1), 2, banks=4, queue_depth=2)


@pytest.fixture
def explorer() -> RecurrenceExplorer:
    return RecurrenceExplorer({"A": A, "B": B})


def test_it_starts_with_the_first_layer_as_it_is(explorer: RecurrenceExplorer) -> None:
    assert explorer.values == {"layer": "A", "schedule": "early", "banks": 2, "queue_depth": 2}
    assert explorer.line.value.startswith(
        "<b>T_pipe = 16</b> = T<sup>ne</sup> 5 + X<sub>1</sub> 2 + X<sub>2</sub> 3 + "
    )
    assert "bank 1 ×" in explorer.line.value
    assert explorer.figure.layout.title.subtitle.text.startswith("A · early · b=2 q=2 · T_pipe = 16<br>")
    assert same(explorer)


@pytest.mark.parametrize(
    ("control", "value", "layer"),
    [
        ("banks", 3, replace(A, banks=3)),
        ("queue_depth", 1, replace(A, queue_depth=1)),
        ("schedule", "on-demand", replace(A, schedule="on-demand")),
        ("layer", "B", replace(B, banks=2)),
    ],
)
def test_each_control_changes_the_layer_that_is_shown(
    explorer: RecurrenceExplorer, control: str, value: object, layer: ScheduledLayer
) -> None:
    explorer.controls[control].value = value
    assert f"<b>T_pipe = {layer.pipe_time}</b>" in explorer.line.value
    for row in (layer.times.a, layer.times.d, layer.times.s, layer.times.f):
        assert (
            "".join(f'<td style="padding:0 10px;text-align:right">{time}</td>' for time in row) in explorer.line.value
        )
    assert list(explorer.live.shown.data[1].x)[-1] == layer.pipe_time
    assert explorer.live.shown.layout.xaxis.range[1] >= layer.pipe_time
    assert same(explorer)
