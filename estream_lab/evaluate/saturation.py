"""How many values an fp16 would hold at ± 65504, of those that experts compute with all steps off."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from estream_lab.experts import Arena, Binding, RecordClass
from estream_lab.experts.switched import arena_weights
from estream_lab.kernels.exact.switches import Weights, float64_silu, float64_sums
from estream_lab.kernels.quant import dequantise_q4_0, quantise_q4_0

KINDS = ("activations", "gate and up", "SwiGLU results", "outputs")
"""What the device rounds to fp16: gathered rows, the two products, their silu(g) * u, and down's product."""

SATURATES = 65520.0
"""From here on, rounding to nearest leaves the range of fp16, and a value becomes ± 65504 (docs/numerics.md)."""


@dataclass
class Saturation:
    """Takes what each layer's experts are called with (an `experts.switched.Watcher`) and counts.

    It keeps the experts that it has seen: for arenas that hold all of a model.

    Attributes:
        values: of each kind, how many there were. beyond: how many of them are `SATURATES` or more in magnitude.
    """

    values: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    beyond: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    _begun: bool = False
    _seen: dict[int, tuple[NDArray[np.float64], ...]] = field(default_factory=dict)

    def begin(self) -> None:
        """Count from the next call on: those before warm a kernel up."""
        self._begun = True

    def see(self, x: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass) -> None:
        """A layer's inputs: its experts' values are computed in float64, from Q4_0 weights, as with all steps off."""
        if not self._begun:
            return
        for place, slot in enumerate(binding.slot.tolist()):
            records = slice(int(binding.offsets[place]), int(binding.offsets[place + 1]))
            if records.start == records.stop:
                continue
            if slot not in self._seen:
                self._seen[slot] = tuple(map(_wide, arena_weights(arena, record, slot)))
            gate, up, down = self._seen[slot]
            rows = x[binding.token[records]].astype(np.float64)  # (n, H)
            g, u = float64_sums(rows, gate), float64_sums(rows, up)  # (n, F)
            h = float64_silu(g) * u  # (n, F)
            self._count("activations", rows)
            self._count("gate and up", g)
            self._count("gate and up", u)
            self._count("SwiGLU results", h)
            self._count("outputs", float64_sums(h, down))

    def _count(self, kind: str, values: NDArray[np.float64]) -> None:
        self.values[kind] += values.size
        self.beyond[kind] += int((np.abs(values) >= SATURATES).sum())


def _wide(projection: Weights) -> NDArray[np.float64]:
    q4 = projection if isinstance(projection, tuple) else quantise_q4_0(projection)
    return dequantise_q4_0(*q4).astype(np.float64)
