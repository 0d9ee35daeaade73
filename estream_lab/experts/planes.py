"""Parameter planes: where the weights of a slot begin, once for all experts (paper, section 3)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.experts.shape import RecordClass


@dataclass(frozen=True)
class ParameterPlanes:
    """Bases and strides of gate, up and down: the weights of slot s begin at p_s^j = B^j + s · stride_j, in bytes.

    The paper's strides are the prepacked sizes S_j, a plane a projection. An arena of whole records is another setting
    of the same rule (`of_records`).
    """

    base: tuple[int, int, int]
    stride: tuple[int, int, int]

    @classmethod
    def of_records(cls, record: RecordClass, slot_stride: int) -> "ParameterPlanes":
        """Slots that hold gate | up | down one after the other: B^u = B^g + S_g, B^d = B^u + S_u, one stride."""
        gate, up = record.gate_bytes, record.up_bytes
        return cls((0, gate, gate + up), (slot_stride,) * 3)

    def addresses(self, slots: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """p_s of gate, up and down for each of int32 (S,) slots: three int64 (S,)."""
        wide = slots.astype(np.int64)
        gate, up, down = (base + wide * stride for base, stride in zip(self.base, self.stride, strict=True))
        return gate, up, down
