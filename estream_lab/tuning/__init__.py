"""The configuration model: which group size, queue depth and number of banks a budget is best spent on."""

from estream_lab.tuning.maxplus import Candidate, Choice, LayerGrid, best, pipe_times

__all__ = ["Candidate", "Choice", "LayerGrid", "best", "pipe_times"]
