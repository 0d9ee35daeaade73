"""The records of a binding joined with addresses: where each one reads and writes (paper, section 3)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.experts.binding import Binding


@dataclass(frozen=True)
class RecordAddresses:
    """Byte offsets of each of a binding's n records, all int64 (n,).

    Attributes:
        slot: the record's slot s.
        x: activation row t · S_X, from p_X on. y: accumulator row t · S_Y, from p_Y on.
        gate, up, down: p_s^j of the slot's weights.
    """

    slot: NDArray[np.int64]
    x: NDArray[np.int64]
    gate: NDArray[np.int64]
    up: NDArray[np.int64]
    down: NDArray[np.int64]
    y: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        binding: Binding,
        weights: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
        row_bytes: int,
    ) -> "RecordAddresses":
        """Join the records of each slot with that slot's three addresses.

        Args:
            binding: the records.
            weights: gate, up and down of each of the binding's slots, int64 (S,) each: `Arena.addresses` or
                `ParameterPlanes.addresses` of `binding.slot`.
            row_bytes: S_X = S_Y, bytes of a row of activations.
        """
        counts = np.diff(binding.offsets)  # (S,)
        gate, up, down = (np.repeat(plane, counts) for plane in weights)  # (n,) each
        rows = binding.token.astype(np.int64) * row_bytes  # (n,)
        return cls(np.repeat(binding.slot.astype(np.int64), counts), rows, gate, up, down, rows)
