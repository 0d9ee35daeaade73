"""Slot compaction: routes joined with the placement map, as CSR over the slots of one bank (paper section 2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.compiled import compiled
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


class Binder:
    """Groups and binds the routes of one layer after the other in records made once: nothing grows with the routes.

    The result of `group` is valid until the next `group`, that of `bind` until the next `bind`.

    Args:
        routes: R, the most routes of a layer.
        groups: K, the most groups of a layer.
        slots: G, the most slots of a bank.
    """

    def __init__(self, routes: int, groups: int, slots: int) -> None:
        self._all = np.arange(routes, dtype=np.int32)  # (R,)
        self._grouped = np.empty(routes, np.int32)  # (R,), route indices by group
        self._route, self._token = np.empty(routes, np.int32), np.empty(routes, np.int32)  # (R,), (R,)
        self._weight = np.empty(routes, np.float32)  # (R,)
        # offsets, and where each slot's next record goes while they are filled
        self._group_offsets, self._group_fill = np.empty(groups + 1, np.int64), np.empty(groups, np.int64)
        self._slot_offsets, self._slot_fill = np.empty(slots + 1, np.int64), np.empty(slots, np.int64)

    @staticmethod
    def bytes_for(routes: int, groups: int, slots: int) -> int:
        """`nbytes` of a binder of these capacities."""
        return 20 * routes + 8 * (2 * groups + 1) + 8 * (2 * slots + 1)

    @property
    def nbytes(self) -> int:
        """Bytes of all records and offsets."""
        return sum(array.nbytes for array in vars(self).values())

    def group(self, routes: Routes, group_of: NDArray[np.int32], groups: int) -> GroupedRoutes:
        """Sort the routes by group, stably: see `group_routes`.

        Raises:
            ValueError: a route names an expert that the layer doesn't have, or more routes or groups than there is
                room for.
        """
        if len(routes) and routes.expert.max() >= len(group_of):
            raise ValueError(f"a route names expert {routes.expert.max()} of a layer of {len(group_of)}")
        if len(routes) > len(self._all) or groups > len(self._group_fill):
            room = f"{len(self._all)} routes of {len(self._group_fill)} groups"
            raise ValueError(f"a binder of {room} can't take {len(routes)} of {groups}")
        offsets = self._group_offsets[: groups + 1]
        _order(
            routes.expert, _frozen(group_of), _frozen(self._all[: len(routes)]), np.int64(0), offsets, self._group_fill,
            self._grouped,
        )  # fmt: skip
        return GroupedRoutes(offsets, self._grouped[: len(routes)])

    def bind(
        self,
        routes: Routes,
        placement: NDArray[np.int32],
        first_slot: int,
        slots: int,
        route_ids: NDArray[np.int32] | None = None,
    ) -> Binding:
        """Bind routes to the slots of one bank: see `compact`.

        Raises:
            ValueError: more routes or slots than there is room for.
        """
        count = len(routes) if route_ids is None else len(route_ids)
        if count > len(self._all) or slots > len(self._slot_fill):
            room = f"{len(self._all)} routes in {len(self._slot_fill)} slots"
            raise ValueError(f"a binder of {room} can't take {count} in {slots}")
        ids = self._all[:count] if route_ids is None else route_ids
        offsets = self._slot_offsets[: slots + 1]
        _order(
            routes.expert, _frozen(placement), _frozen(ids), np.int64(first_slot), offsets, self._slot_fill, self._route
        )
        n = int(offsets[-1])
        route, token, weight = self._route[:n], self._token[:n], self._weight[:n]
        _gather(routes.token, routes.weight, route, token, weight)
        return Binding(offsets, token, route, weight, np.arange(first_slot, first_slot + slots, dtype=np.int32))


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
    count = len(routes) if route_ids is None else len(route_ids)
    return Binder(count, 0, slots).bind(routes, placement, first_slot, slots, route_ids)


def group_routes(routes: Routes, group_of: NDArray[np.int32], groups: int) -> GroupedRoutes:
    """Sort the routes by group, stably.

    Args:
        routes: the layer's routes, length R.
        group_of: int32 (E,), q_l(e): the group of each expert.
        groups: K.

    Raises:
        ValueError: a route names an expert that the layer doesn't have.
    """
    return Binder(len(routes), groups, 0).group(routes, group_of, groups)


def _frozen(table: NDArray[np.int32]) -> NDArray[np.int32]:
    """A read-only view: numba would compile once more for a writable table."""
    view = table.view()
    view.flags.writeable = False
    return view


@compiled
def _order(expert, table, ids, first, offsets, fill, out):  # type: ignore[no-untyped-def]
    """Histogram, prefix sum, fill: the indices ``ids`` of routes by ``table[expert] - first``, those outside left out.

    Stable in the route index because ``ids`` ascends. Places are 0 .. len(offsets) - 2; ``out[: offsets[-1]]`` is set.
    """
    places = len(offsets) - 1
    for s in range(places + 1):
        offsets[s] = 0
    for i in ids:
        local = table[expert[i]] - first  # psi_i within the bank
        if 0 <= local < places:
            offsets[local + 1] += 1
    for s in range(places):
        offsets[s + 1] += offsets[s]
        fill[s] = offsets[s]
    for i in ids:
        local = table[expert[i]] - first
        if 0 <= local < places:
            out[fill[local]] = i
            fill[local] += 1


@compiled
def _gather(token, weight, route, out_token, out_weight):  # type: ignore[no-untyped-def]
    """Source row and weight of each record."""
    for n in range(len(route)):
        out_token[n], out_weight[n] = token[route[n]], weight[route[n]]
