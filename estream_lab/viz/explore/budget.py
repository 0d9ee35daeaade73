"""The budget explorer: a memory budget, and what the configuration model spends it on."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import ipywidgets as widgets

from estream_lab.tuning.configure import Selection, select
from estream_lab.tuning.models import MODELS
from estream_lab.tuning.profile import Profile
from estream_lab.viz.explore.base import Explorer, Picture, named
from estream_lab.viz.figures.choices import choices_drawing
from estream_lab.viz.figures.theme import mebibytes

STEPS = 40
"""Of the budget, from the smallest that works to one that holds whatever there is."""


class BudgetExplorer(Explorer):
    """Which profile, how much of what could be used, and the model that chooses.

    Args:
        profiles: by what readers call them, which says whether they were measured or simulated.
        step: of the budget at the start, from 0 to `STEPS`.
    """

    def __init__(self, profiles: Mapping[str, Profile], step: int = 12) -> None:
        self.profiles = dict(profiles)
        self.selected = lru_cache(512)(self._select)
        super().__init__(
            {
                "profile": named(widgets.Dropdown(options=list(self.profiles)), "profile"),
                "model": named(widgets.Dropdown(options=list(MODELS)), "model"),
                "step": named(widgets.IntSlider(step, 0, STEPS), "budget"),
            }
        )

    def picture(self, *, profile: str, model: str, step: int) -> Picture:
        """The selection at this budget."""
        selection, chosen = self.selected(profile, model, step), self.profiles[profile]
        settings = f"{profile} · {model} model · budget {mebibytes(selection.budget_bytes)}"
        return Picture(choices_drawing(selection, chosen), told(selection), settings)

    def budget(self, profile: str) -> int:
        """Bytes that the slider stands for with that profile."""
        return budget(self.profiles[profile], self.values["step"])

    def _select(self, profile: str, model: str, step: int) -> Selection:
        return select(self.profiles[profile], budget(self.profiles[profile], step), model)


def budget(profile: Profile, step: int) -> int:
    """Bytes of a step: 0 holds one bank of the smallest group, `STEPS` a bank for every group of any size."""
    least = profile.other_bytes + min(profile.group_sizes) * profile.slot_bytes
    most = profile.other_bytes + max(g * profile.groups(g) for g in profile.group_sizes) * profile.slot_bytes
    return least + (most - least) * step // STEPS


BINDS: Mapping[str, Any] = {
    "memory": "memory binds: more banks would be faster, and don't fit",
    "groups": "the number of groups binds: there is a bank for each",
    "service times": "service times bind: another bank would gain nothing",
}


def told(selection: Selection) -> str:
    """A selection in words: the choice, what binds, and its margin."""
    chosen, runner_up = selection.chosen, selection.runner_up
    head = (
        f"<b>Of {mebibytes(selection.budget_bytes)}: "
        f"G={chosen.group_size} B={chosen.banks} Q={chosen.queue_depth}</b>, "
        f"{chosen.predicted_seconds:.4f} s predicted in {mebibytes(chosen.memory_bytes)}; {BINDS[chosen.binds]}."
    )
    margin, noise = selection.margin_seconds, selection.margin_noise_seconds
    if runner_up is None or margin is None:
        return f"{head}<br>No other group size fits."
    against = ""
    if noise is not None:
        against = f", {'more' if margin > noise else 'no more'} than the noise of {noise * 1e3:.2f} ms"
    return (
        f"{head}<br>Runner-up: G={runner_up.group_size} B={runner_up.banks} Q={runner_up.queue_depth}, "
        f"{margin * 1e3:+.2f} ms{against}."
    )
