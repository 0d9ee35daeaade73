"""Slot compaction: routes joined with the placement map, as CSR over the slots of one bank (paper section 2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.host.compiled import compiled
from estream_lab.routing import Routes


@dataclass(frozen=True)
class Binding:
    """The records Pi of one invocation: those of slot ``slot[i]`` are ``offsets[i]:offsets[i + 1]``, never padded.

    Attributes:
        offsets: int64 (S + 1,), o_0 = 0.
        token: int32 (n,), source row t of each record.
        route: int32 (n,), index i of the route, so that its weight can be found; ascending within a slot.
        weight: float32 (n,), alpha_i.
        slot: int32 (S,), physical slots, in visit order.
    """

    offsets: NDArray[np.int64]
    token: NDArray[np.int32]
    route: NDArray[np.int32]
    weight: NDArray[np.float32]
    slot: NDArray[np.int32]

    def __len__(self) -> int:
        """Number of records."""
        return len(self.token)

    def split(self, capacity: int) -> list["Binding"]:
        """Cut into ceil(n / capacity) consecutive ranges of records, each within the graph's route capacity C."""
        if len(self) <= capacity:
            return [self]
        parts = []
        for first in range(0, len(self), capacity):
            last = min(first + capacity, len(self))
            offsets = np.clip(self.offsets, first, last) - first
            cut = slice(first, last)
            parts.append(Binding(offsets, self.token[cut], self.route[cut], self.weight[cut], self.slot))
        return parts


def compact(
    routes: Routes,
    placement: NDArray[np.int32],
    first_slot: int,
    slots: int,
    route_ids: NDArray[np.int32] | None = None,
) -> Binding:
    """Bind routes to the slots ``first_slot .. first_slot + slots - 1`` in O(slots + n) time and space.

    Args:
        routes: the layer's routes, length R.
        placement: int32 (E,), Phi: the slot of each ready expert, -1 where an expert isn't resident.
        first_slot, slots: the bank.
        route_ids: int32 (n,), ascending; bind only these routes (all of them by default).

    Returns:
        The bank's `Binding`; routes whose expert lives elsewhere are left out.
    """
    ids = np.arange(len(routes), dtype=np.int32) if route_ids is None else route_ids
    offsets, token, route, weight = _compact(
        routes.token, routes.expert, routes.weight, _frozen(placement), ids, np.int64(first_slot), np.int64(slots)
    )
    return Binding(offsets, token, route, weight, np.arange(first_slot, first_slot + slots, dtype=np.int32))


def _frozen(table: NDArray[np.int32]) -> NDArray[np.int32]:
    """A read-only view: numba would compile once more for a writable table."""
    view = table.view()
    view.flags.writeable = False
    return view


@compiled
def _compact(token, expert, weight, placement, ids, first_slot, slots):  # type: ignore[no-untyped-def]
    """Histogram, prefix sum, fill; stable in the route index because ``ids`` ascends."""
    offsets = np.zeros(slots + 1, np.int64)
    for i in ids:
        local = placement[expert[i]] - first_slot  # psi_i within the bank
        if 0 <= local < slots:
            offsets[local + 1] += 1
    for s in range(slots):
        offsets[s + 1] += offsets[s]
    fill = offsets[:-1].copy()
    n = offsets[slots]
    out_token, out_route, out_weight = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.float32)
    for i in ids:
        local = placement[expert[i]] - first_slot
        if 0 <= local < slots:
            at = fill[local]
            fill[local] += 1
            out_token[at], out_route[at], out_weight[at] = token[i], i, weight[i]
    return offsets, out_token, out_route, out_weight


@dataclass(frozen=True)
class GroupedRoutes:
    """A layer's route indices by scheduled group, so that binding all its banks costs O(R) and not O(R) each.

    Attributes:
        offsets: int64 (K + 1,).
        route: int32 (R,), ascending within a group.
    """

    offsets: NDArray[np.int64]
    route: NDArray[np.int32]

    def of(self, group: int) -> NDArray[np.int32]:
        """Route indices of ``group``, ascending."""
        return self.route[self.offsets[group] : self.offsets[group + 1]]

    @property
    def needed(self) -> list[int]:
        """Groups with at least one route, in order."""
        return [int(g) for g in np.flatnonzero(np.diff(self.offsets))]


def group_routes(routes: Routes, group_of: NDArray[np.int32], groups: int) -> GroupedRoutes:
    """Sort the routes by group, stably.

    Args:
        routes: the layer's routes, length R.
        group_of: int32 (E,), q_l(e): the group of each expert.
        groups: K.

    Raises:
        ValueError: a route names an expert that the layer doesn't have.
    """
    if len(routes) and routes.expert.max() >= len(group_of):
        raise ValueError(f"a route names expert {routes.expert.max()} of a layer of {len(group_of)}")
    offsets, _, route, _ = _compact(
        routes.token,
        routes.expert,
        routes.weight,
        _frozen(group_of),
        np.arange(len(routes), dtype=np.int32),
        np.int64(0),
        np.int64(groups),
    )
    return GroupedRoutes(offsets, route)
