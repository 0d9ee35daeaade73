"""The accumulator explorer: one output of a matrix product, group by group, under a numerics profile."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import ipywidgets as widgets

from estream_lab.kernels.exact import DEFAULT_PROFILE, PROFILES, profile
from estream_lab.kernels.exact.accumulator_trace import AccumulatorStep, accumulator_steps
from estream_lab.kernels.exact.arrays import U16
from estream_lab.trace import Provenance
from estream_lab.viz.explore.base import Explorer, Picture, named
from estream_lab.viz.figures.accumulator import accumulator_drawing


class AccumulatorExplorer(Explorer):
    """Profile, row of activations, output column, and the group of products.

    Args:
        a: (M, K) uint16 codes, gathered activations. b: (N, K) uint16, decoded weights of N outputs.
        provenance: of both.
        profile_name: at the start.
    """

    def __init__(self, a: U16, b: U16, provenance: Provenance, profile_name: str = DEFAULT_PROFILE) -> None:
        self.a, self.b, self.provenance = a, b, provenance
        self.steps = lru_cache(64)(self._steps)
        chosen = named(widgets.Dropdown(options=list(PROFILES), value=profile(profile_name).name), "profile")
        chosen.observe(self._other_profile, names="value")  # before the picture is drawn
        super().__init__(
            {
                "profile_name": chosen,
                "row": named(widgets.IntSlider(0, 0, len(a) - 1), "row"),
                "output": named(widgets.IntSlider(0, 0, len(b) - 1), "output"),
                "group": named(widgets.IntSlider(0, 0, a.shape[1] // profile(profile_name).group - 1), "group"),
            }
        )

    def picture(self, *, profile_name: str, row: int, output: int, group: int) -> Picture:
        """One group of one output's products."""
        steps = self.steps(profile_name, row, output)
        step = steps[min(group, len(steps) - 1)]
        settings = f"row {row}, output {output}, group {group}"
        drawing = accumulator_drawing(step, profile(profile_name), self.provenance)
        return Picture(drawing, _told(step, len(steps)), settings)

    def _steps(self, profile_name: str, row: int, output: int) -> tuple[AccumulatorStep, ...]:
        return accumulator_steps(self.a[row], self.b[output], profile_name)

    def _other_profile(self, change: Mapping[str, Any]) -> None:
        """Another profile takes other groups: stay near the same products."""
        slider, products = self.controls["group"], self.a.shape[1]
        at = slider.value * (products // (slider.max + 1))
        size = profile(change["new"]).group
        slider.max = products // size - 1
        slider.value = at // size


def _told(step: AccumulatorStep, count: int) -> str:
    """A group in words."""
    last, number = step.first + step.size - 1, step.first // step.size + 1
    span = f"k = {step.first} … {last}" if step.size > 1 else f"k = {step.first}"
    head = f"<b>Group {number} of {count}</b> ({span}): "
    if step.passed_over:
        return f"{head}all of its activations, or all of its weights, are zero: the accumulator passes it over."
    lost = sum(line.lost for line in step.products)
    products = f"{lost} of {step.size} products lose ones" if step.size > 1 else "its product is exact"
    away = step.held.value - step.exact.value
    return (
        f"{head}{products}.<br>The accumulator then holds "
        f"{step.held.value:+.9g} = {step.held.bits:,} · 2<sup>{step.held.place}</sup>; exact so far: "
        f"{step.exact.value:+.9g}, error {away:+.1e}."
    )
