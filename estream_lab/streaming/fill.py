"""Some groups of one layer read into the banks of an arena, for looking at a binding without an engine around it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.residency import ResidencyTable
from estream_lab.streaming.loader import GroupRead, Loader
from estream_lab.streaming.store import Store


def fill_banks(
    store: Store, layer: int, bank_of: Mapping[int, int], group_size: int, banks: int
) -> tuple[Arena, NDArray[np.int32]]:
    """Read groups into banks, one after the other, and publish them.

    Args:
        store: the experts. layer: whose.
        bank_of: group to the bank that it goes to, no two to one.
        group_size: G. banks: B.

    Returns:
        The arena, and Φ: int32 (E,), the slot of each expert that was read, -1 for the others.

    Raises:
        EStreamError: a group or bank that isn't there, or whatever reading raises.
    """
    records = store.layers[layer]
    for group, bank in bank_of.items():
        if not 0 <= group < records.groups(group_size) or not 0 <= bank < banks:
            raise EStreamError(
                f"group {group} into bank {bank}: the layer has {records.groups(group_size)} groups of {group_size} "
                f"and the arena {banks} banks"
            )
    arena = Arena(banks, group_size, store.stride)
    residency = ResidencyTable(store.spec.layers, store.spec.experts, banks, group_size)
    loader = Loader(store, queue_depth=1)
    try:
        for group, bank in bank_of.items():
            experts = records.group_experts(group, group_size)
            residency.assign(bank, layer, experts)
            views = arena.bank_view(bank, len(experts), records.record.stride)
            loader.submit(GroupRead(layer, group, group_size, views)).result()
            residency.slice_arrived(bank)
    finally:
        loader.close()
    return arena, residency.placement(layer)
