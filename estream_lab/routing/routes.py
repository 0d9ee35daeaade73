"""The routes of one layer: which token visits which expert, with which weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Routes:
    """Aligned arrays of R routes, token-major; route i is (t_i, e_i, α_i) (paper, section 3).

    One token may visit the same expert twice. The arrays are read-only copies (but see `over`).

    Attributes:
        token: (R,) int32, never decreasing.
        expert: (R,) int32, not negative.
        weight: (R,) float32, finite.
    """

    token: NDArray[np.int32]
    expert: NDArray[np.int32]
    weight: NDArray[np.float32]

    def __post_init__(self) -> None:
        for name, dtype in (("token", np.int32), ("expert", np.int32), ("weight", np.float32)):
            object.__setattr__(self, name, _frozen(getattr(self, name), dtype, name))
        if not len(self.token) == len(self.expert) == len(self.weight):
            raise ValueError(
                f"routes need one token, expert and weight each, not {len(self.token)}, {len(self.expert)} and"
                f" {len(self.weight)}"
            )
        if len(self) and (self.token[0] < 0 or (np.diff(self.token) < 0).any()):
            raise ValueError("routes must be token-major: tokens that start at 0 or above and never decrease")
        if (self.expert < 0).any():
            raise ValueError(f"a route names expert {self.expert.min()}: experts are numbered from 0")
        if not np.isfinite(self.weight).all():
            raise ValueError("a route has a weight that is not finite")

    @classmethod
    def from_topk(cls, ids: ArrayLike, weights: ArrayLike) -> Routes:
        """Routes of T tokens with k experts each, from a router's two (T, k) results."""
        ids, weights = np.asarray(ids), np.asarray(weights)
        if ids.ndim != 2 or ids.shape != weights.shape:
            raise ValueError(f"expert ids {ids.shape} and weights {weights.shape} must both have shape (T, k)")
        tokens, top_k = ids.shape
        token = np.repeat(np.arange(tokens, dtype=np.int32), top_k)
        return cls(token, ids.reshape(-1), weights.reshape(-1))

    @classmethod
    def over(cls, token: NDArray[np.int32], expert: NDArray[np.int32], weight: NDArray[np.float32]) -> Routes:
        """Routes over the arrays themselves, (R,) each, neither copied nor checked: for what a router has written.

        They are read-only through the routes, which change if their owner writes to them.
        """
        routes = object.__new__(cls)
        for name, array in (("token", token), ("expert", expert), ("weight", weight)):
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(routes, name, view)
        return routes

    def __len__(self) -> int:
        """R, the number of routes."""
        return len(self.token)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same routes, weights bit for bit."""
        if not isinstance(other, Routes):
            return NotImplemented
        return (
            np.array_equal(self.token, other.token)
            and np.array_equal(self.expert, other.expert)
            and self.weight.tobytes() == other.weight.tobytes()
        )

    __hash__ = None  # type: ignore[assignment]

    def counts(self, experts: int) -> NDArray[np.int64]:
        """Routes of each expert: (experts,) int64."""
        counts = np.bincount(self.expert, minlength=experts)
        if len(counts) > experts:
            raise ValueError(f"a route names expert {len(counts) - 1} of {experts}")
        return counts.astype(np.int64)


def _frozen(values: ArrayLike, dtype: type[np.int32] | type[np.float32], name: str) -> NDArray[np.generic]:
    given = np.asarray(values)
    if given.ndim != 1:
        raise ValueError(f"{name} of routes must be one-dimensional, not {given.shape}")
    if dtype is np.int32 and given.size and not np.issubdtype(given.dtype, np.integer):
        raise ValueError(f"{name} of routes must be whole numbers, not {given.dtype}")
    if dtype is np.int32 and given.size and (given.max() > 2**31 - 1 or given.min() < -(2**31)):
        raise ValueError(f"{name} of routes must fit 32 bits")
    with np.errstate(over="ignore"):  # weights that become infinite are refused by the caller
        array = given.astype(dtype, copy=True)
    array.flags.writeable = False
    return array
