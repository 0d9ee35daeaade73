"""Which layer a call of a kernel is of, and executors that compute one layer otherwise than the others."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.cases import Case
from estream_lab.evaluate.runs import Change, change, run
from estream_lab.experts import Arena, Binding, RecordClass
from estream_lab.experts.executors import Executor
from estream_lab.experts.switched import SwitchedKernel, arena_weights
from estream_lab.kernels.exact.switches import Switches, Weights, switched_bank
from estream_lab.kernels.quant import quantise_q4_0
from estream_lab.streaming import Store

Expert = tuple[Weights, Weights, Weights]


def layer_of(binding: Binding, arena: Arena) -> int:
    """The layer of a call, in an arena that holds all layers, a bank each (`runs.settings`).

    Raises:
        RuntimeError: the slots are not those of one bank.
    """
    banks = np.unique(binding.slot // arena.group_size)
    if len(banks) != 1:
        raise RuntimeError(f"a call over the banks {banks.tolist()}, where a layer has one")
    return int(banks[0])


def quantised(expert: Expert) -> Expert:
    """Gate, up and down as Q4_0, as packing makes them."""
    gate, up, down = (w if isinstance(w, tuple) else quantise_q4_0(w) for w in expert)
    return gate, up, down


class LayerwiseKernel:
    """`kernels.exact.switches` with switches for each layer, an arena's bank being one: an `ExpertKernel`.

    It keeps the experts that it has seen, quantised where that is on: for arenas that hold all of a model.

    Args:
        record: the record class that it reads.
        route_capacity: C, the most records of one call.
        switches: of each layer.
    """

    numerics_profile = "switched by layer"

    def __init__(self, record: RecordClass, route_capacity: int, *, switches: Sequence[Switches]) -> None:
        self._switches = switches
        self._seen: dict[int, Expert] = {}  # by slot
        self.nbytes: int = self.bytes_for(record, route_capacity, 1)

    @staticmethod
    def bytes_for(record: RecordClass, route_capacity: int, threads: int) -> int:
        """`nbytes` of a kernel of this size: its temporaries, and not the experts that it keeps."""
        return SwitchedKernel.bytes_for(record, route_capacity, threads)

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        """See `ExpertKernel`."""
        switches = self._switches[layer_of(binding, arena)]
        for place, slot in enumerate(binding.slot.tolist()):
            if slot not in self._seen and binding.offsets[place] < binding.offsets[place + 1]:
                expert = arena_weights(arena, record, slot)
                self._seen[slot] = quantised(expert) if switches.quantise else expert
        experts = [self._seen.get(slot) for slot in binding.slot.tolist()]
        switched_bank(x, y, binding.offsets, binding.token, binding.weight, experts, switches)


def layerwise(switches: Sequence[Switches]) -> Executor:
    """An executor with these switches on in each layer, for engines that hold a layer in a bank (`runs.settings`)."""
    kernel = partial(LayerwiseKernel, switches=tuple(switches))
    return Executor("switched", LayerwiseKernel.numerics_profile, kernel, LayerwiseKernel.bytes_for, "f32")


def by_layer(
    store: Store, windows: Sequence[Window], found: Sequence[Case], *, threads: int = 1
) -> dict[str, tuple[Change, ...]]:
    """What each case's step changes where it is on in one layer alone, and its reference holds in all others.

    Args:
        store: packed as f32, if a case quantises.
        windows: no longer than the model's context.
        found: cases of different names.
        threads: of the engine; they change no figure.

    Returns:
        By name, a change for each layer.
    """
    layers = store.spec.layers
    references = {
        each: run(store, windows, layerwise([each] * layers), threads=threads)
        for each in dict.fromkeys(case.reference for case in found)
    }
    made = {}
    for case in found:
        alone = [[case.switches if i == layer else case.reference for i in range(layers)] for layer in range(layers)]
        runs = [run(store, windows, layerwise(each), threads=threads) for each in alone]
        made[case.name] = tuple(change(mine, references[case.reference], windows) for mine in runs)
    return made
