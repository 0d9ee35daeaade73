"""Scales of picked rows: fp16 numbers as the float32 that equal them."""

import numpy as np

from estream_lab.kernels.int8.rows import float_of_half


def test_every_finite_half_decodes_exactly() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    bits = bits[bits & 0x7C00 != 0x7C00]
    got = np.array([float_of_half(b) for b in bits.astype(np.uint32)], np.float32)
    assert got.tobytes() == bits.view(np.float16).astype(np.float32).tobytes()
