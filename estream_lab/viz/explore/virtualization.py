"""The explorer of expert virtualization: switch one rule off, and walk into the trouble that it prevents."""

from collections.abc import Mapping
from typing import Any

import ipywidgets as widgets

from estream_lab.experts.cases import CASES, STORY, troubles
from estream_lab.experts.exploration import Trouble
from estream_lab.experts.rules import RULES
from estream_lab.experts.steps import walk
from estream_lab.viz.explore.base import Explorer, Picture, named
from estream_lab.viz.figures.steps import step_drawing
from estream_lab.viz.figures.story import Story

NOTHING = "none"
DEMANDS = {rule.name: rule.demand for rule in RULES}


def stories(found: Mapping[str, Trouble] | None = None) -> dict[str, Story]:
    """A run with all rules on, under `NOTHING`; and for each rule, by name, the shortest way into trouble without it.

    Args:
        found: the ways, where they are known already.
    """
    ways = troubles() if found is None else found
    whole = {NOTHING: Story(STORY, walk(STORY))}
    return whole | {rule: Story(CASES[rule], way.moves, way.hazard, rule) for rule, way in ways.items()}


class VirtualizationExplorer(Explorer):
    """Which rule is switched off, and up to which step to go: the banks, the placement map, and what collides.

    All ways are found at the start, so that the slider only draws. Choosing a rule goes to its last step.
    """

    def __init__(self, rule: str = NOTHING, found: Mapping[str, Trouble] | None = None) -> None:
        self.stories = stories(found)
        last = len(self.stories[rule].lines)
        chosen = widgets.Dropdown(options=list(self.stories), value=rule)
        self._step = widgets.IntSlider(last, 0, last)
        chosen.observe(self._chosen, names="value")
        super().__init__({"rule": named(chosen, "rule off"), "step": named(self._step, "step")})

    def picture(self, *, rule: str, step: int) -> Picture:
        """The story of a rule up to a step."""
        story = self.stories[rule]
        return Picture(step_drawing(story, step), _line(story, step))

    def _chosen(self, change: Mapping[str, Any]) -> None:
        last = len(self.stories[change["new"]].lines)
        self._step.max = last
        self._step.value = last


def _line(story: Story, step: int) -> str:
    """What happens at the step, what the rule would have said, and what has collided."""
    parts = [f"Step {step} of {len(story.lines)}: {story.words(step)}."]
    broken = [at for at, rule in story.refused.items() if at <= step and rule == story.rule]
    if broken:
        parts.append(f"The rule would have refused step {broken[0]}: {DEMANDS[story.rule]}.")
    if story.hazard is not None and story.hazard.second.at <= step:
        parts.append(f"<b>{story.hazard}</b>.")
    return " ".join(parts)
