"""Models of what a configuration takes, for choosing by: the paper's recurrence, and a finer one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.tuning.maxplus import LayerGrid, Times, pipe_times
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.refined import shared_times


@dataclass(frozen=True)
class Model:
    """How a configuration's time is computed, and what is chosen by it.

    Attributes:
        name: of it. pipe_times: T_pipe, of a grid with 1, 2, … banks at a depth.
        searches_depth: whether the queue depth is searched as well: the paper's is fixed at Q0.
        pays_banks: whether a bank costs what the profile says, or nothing.
    """

    name: str
    pipe_times: Times
    searches_depth: bool
    pays_banks: bool

    def times_of(self, grid: LayerGrid, banks: int, queue_depth: int) -> NDArray[np.float64]:
        """In ns with 1, 2, … ``banks`` banks: (banks,) float64.

        Raises:
            EStreamError: no banks, or a depth that the grid has no reads for.
        """
        times = self.pipe_times(grid, banks, queue_depth)
        return times + grid.bank_ns * np.arange(1, banks + 1) if self.pays_banks else times

    def outside_ns(self, profile: Profile) -> float:
        """What is in none of those times."""
        return profile.without_banks_ns() if self.pays_banks else profile.outside_ns()


LITERAL = Model("literal", pipe_times, searches_depth=False, pays_banks=False)
SHARED = Model("shared", shared_times, searches_depth=True, pays_banks=True)
MODELS = {model.name: model for model in (LITERAL, SHARED)}
"""By the names that the command line takes."""


def model_of(model: str | Model) -> Model:
    """The model of that name, or the one given.

    Raises:
        EStreamError: no such model.
    """
    if isinstance(model, Model):
        return model
    if model not in MODELS:
        raise EStreamError(f"unknown model '{model}': choose one of {', '.join(MODELS)}")
    return MODELS[model]
