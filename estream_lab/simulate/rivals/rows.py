"""Rows that contestants compute for a contest's routes, in the terms of `routing.padding`."""

import numpy as np
from numpy.typing import NDArray

from estream_lab.routing.padding import RowCost
from estream_lab.simulate.rivals.contest import Contest


def exact(contest: Contest) -> RowCost:
    """As many rows as routes."""
    return RowCost(contest.routed, contest.routed)


def in_chunks(contest: Contest, rows: int) -> NDArray[np.int64]:
    """Each expert's routes of the whole request, rounded up to whole chunks of ``rows``: (layers, E) int64."""
    return -(-contest.workload.loads // rows) * rows


def in_prompt_chunks(contest: Contest, rows: int) -> NDArray[np.int64]:
    """The same for each chunk of ``rows`` tokens by itself, so that an expert computes ``rows`` rows, or more where
    tokens visit it twice, for every chunk that touches it: (layers, E) int64."""
    experts = contest.workload.model.experts
    chunks = -(-contest.workload.tokens // rows)
    padded = np.zeros_like(contest.workload.loads)
    for layer, routes in enumerate(contest.routes):
        place = routes.token // rows * experts + routes.expert  # (R,): of a chunk and an expert
        loads = np.bincount(place, minlength=chunks * experts).reshape(chunks, experts)
        padded[layer] = (-(-loads // rows) * rows).sum(axis=0)
    return padded
