"""One expert's record as the store holds it: gate | up | down in execution layout, padded to a page."""

import numpy as np
from numpy.typing import NDArray

from estream_lab.experts.shape import RecordClass
from estream_lab.kernels.layout import pack_f32, pack_q4_32x32
from estream_lab.kernels.quant import quantise_q4_0

QUANTS = {"q4_0": "q4-32x32", "f32": "f32"}
"""The layout of each quantisation that packing offers."""


def pack_record(
    projections: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]], record: RecordClass, quant: str
) -> NDArray[np.uint8]:
    """One expert's record: uint8 (stride,).

    Args:
        projections: gate (F, H), up (F, H), down (H, F), float32.
        record: its class.
        quant: q4_0 or f32.
    """
    out = np.zeros(record.stride, np.uint8)
    at = 0
    for weight, size in zip(projections, (record.gate_bytes, record.up_bytes, record.down_bytes), strict=True):
        out[at : at + size] = pack_q4_32x32(*quantise_q4_0(weight)) if quant == "q4_0" else pack_f32(weight)
        at += size
    return out
