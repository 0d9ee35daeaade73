"""How many experts a prompt touches: what has to be read, at the least, before its last token is done."""

import numpy as np
from numpy.typing import NDArray

from estream_lab.routing.routes import Routes


def touched_experts(routes: Routes) -> NDArray[np.int64]:
    """Distinct experts that the first 1, 2, …, T tokens of one layer touch: int64 (T,), never falling.

    A decoder's attention looks back only, so the first t tokens are routed alike however the prompt goes on: one run
    gives the count for every shorter prompt.

    Args:
        routes: of one layer; tokens count from 0, and T is one more than the last.
    """
    if not len(routes):
        return np.zeros(0, np.int64)
    _, first = np.unique(routes.expert, return_index=True)  # token-major: the first route of an expert is its earliest
    new = np.bincount(routes.token[first], minlength=int(routes.token[-1]) + 1)  # (T,)
    return np.asarray(new.cumsum(), np.int64)


def touched_if_even(tokens: int, experts: int, top_k: int) -> NDArray[np.float64]:
    """Expected distinct experts of 1, 2, …, T tokens that each draw k of E at random, all alike: float64 (T,).

    E · (1 − (1 − k/E)^t): what a router without preferences would touch, the most that t tokens touch on average.
    """
    if tokens < 0 or not 1 <= top_k <= experts:
        raise ValueError(f"cannot draw {top_k} of {experts} experts for {tokens} tokens")
    t = np.arange(1, tokens + 1)
    return np.asarray(experts * (1 - (1 - top_k / experts) ** t), np.float64)
