"""Errors of variants of the arithmetic on equal inputs, layer by layer."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from estream_lab.evaluate.cases import OFF, Case
from estream_lab.evaluate.layers import Expert, layer_of, quantised
from estream_lab.experts import Arena, Binding, RecordClass
from estream_lab.experts.switched import arena_weights
from estream_lab.kernels.exact.switches import Switches, switched_bank


class LocalErrors:
    """Takes what each layer's experts are called with (an `experts.switched.Watcher`) and runs every variant on it.

    Args:
        found: what is compared with what.
        layers: of the model; each layer is one call.
    """

    def __init__(self, found: Sequence[Case], layers: int) -> None:
        self._cases, self._layers = found, layers
        self._calls: int | None = None  # none yet: a kernel is being warmed up
        self._difference = np.zeros((len(found), layers))  # Σ (y - y_ref)²
        self._size = np.zeros(layers)  # Σ y_off²

    def begin(self) -> None:
        """The next call is the first layer's, of the first window."""
        self._calls = 0

    def see(self, x: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass) -> None:
        """The next layer's inputs.

        Raises:
            RuntimeError: slots that aren't those of the layer whose turn it is.
        """
        if self._calls is None:
            return
        layer, turn = layer_of(binding, arena), self._calls % self._layers
        if layer != turn:
            raise RuntimeError(f"a call with the experts of layer {layer} where layer {turn} was to come")
        self._calls += 1
        experts = _called(binding, arena, record)
        packed = [expert and quantised(expert) for expert in experts]  # once for all variants
        variants = {OFF, *(s for case in self._cases for s in (case.switches, case.reference))}
        made = {each: _output(x, binding, packed if each.quantise else experts, each) for each in variants}
        self._size[layer] += np.square(made[OFF]).sum()
        for place, case in enumerate(self._cases):
            self._difference[place, layer] += np.square(made[case.switches] - made[case.reference]).sum()

    @property
    def errors(self) -> list[NDArray[np.float64]]:
        """Of each case, (L,): ‖y - y_ref‖ / ‖y_off‖ over all that was seen."""
        return list(np.sqrt(self._difference / self._size))


def _called(binding: Binding, arena: Arena, record: RecordClass) -> list[Expert | None]:
    """Gate, up and down of each slot that has records, else None."""
    filled = np.diff(binding.offsets) > 0
    return [
        arena_weights(arena, record, int(slot)) if has_records else None
        for slot, has_records in zip(binding.slot, filled, strict=True)
    ]


def _output(
    x: NDArray[np.float32],
    binding: Binding,
    experts: Sequence[Expert | None],
    switches: Switches,
) -> NDArray[np.float64]:
    y = np.zeros_like(x)  # (T, H)
    switched_bank(x, y, binding.offsets, binding.token, binding.weight, experts, switches)
    return y.astype(np.float64)
