import pytest

from estream_lab.experts.rules import RULES
from estream_lab.viz.explore.virtualization import NOTHING, VirtualizationExplorer
from tests.viz.hand_made import drawn, plain


@pytest.fixture(scope="module")
def explorer() -> VirtualizationExplorer:
    return VirtualizationExplorer("last-invocation")


def marks(explorer: VirtualizationExplorer) -> list[int]:
    """The steps that are marked as colliding in the live figure."""
    (found,) = [trace for trace in explorer.live.shown.data if trace.name == "collision"]
    return list(found.y)


def test_every_rule_can_be_switched_off_and_none(explorer: VirtualizationExplorer) -> None:
    assert list(explorer.controls["rule"].options) == [NOTHING, *(rule.name for rule in RULES)]


def test_the_slider_walks_into_the_collision(explorer: VirtualizationExplorer) -> None:
    explorer.controls["rule"].value = "last-invocation"
    lines = {}
    for step in (6, 7, 8, 9):
        explorer.controls["step"].value = step
        lines[step] = explorer.line.value
        assert marks(explorer) == {6: [], 7: [7], 8: [7], 9: [7, 9]}[step]
        assert plain(explorer.live.shown) == drawn(explorer)
    assert lines[7] == "Step 7 of 9: run group 0 of layer 0 in bank 0."
    refusal = (
        "The rule would have refused step 8: a bank is given up only after the last invocation on it has completed."
    )
    assert lines[8] == f"Step 8 of 9: release bank 0. {refusal}"
    assert lines[9].startswith(f"Step 9 of 9: read group 2 of layer 0 into bank 0. {refusal} <b>early reuse: ")
    assert lines[9].endswith("group 0 of layer 0 computes with bytes of group 2 of layer 0</b>.")


def test_choosing_a_rule_goes_to_its_last_step_and_before_the_first_all_is_at_rest(
    explorer: VirtualizationExplorer,
) -> None:
    explorer.controls["rule"].value = "queue-place"
    assert explorer.values == {"rule": "queue-place", "step": 3}
    assert explorer.controls["step"].max == 3 and "queue overrun" in explorer.line.value
    explorer.controls["rule"].value = NOTHING
    assert explorer.values == {"rule": NOTHING, "step": 22}
    assert explorer.line.value == "Step 22 of 22: layer 0 ends." and marks(explorer) == []
    explorer.controls["step"].value = 0
    assert explorer.line.value == "Step 0 of 22: at rest."
    assert plain(explorer.live.shown) == drawn(explorer)


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_every_rule_ends_in_its_hazard(explorer: VirtualizationExplorer, rule: str) -> None:
    explorer.controls["rule"].value = rule
    story = explorer.stories[rule]
    assert f"<b>{story.hazard}</b>" in explorer.line.value
    assert marks(explorer) == [event.at for event in story.collision] and marks(explorer)
    assert "The rule would have refused step" in explorer.line.value
