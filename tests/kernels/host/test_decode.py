"""Strips decode to the very floats of the NumPy dequantisation."""

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.host.decode import decode_strip, float_of_half
from estream_lab.kernels.layout import pack_f32, pack_q4_32x32
from estream_lab.kernels.quant import dequantise_q4_0


def decode(packed: NDArray[np.uint8], rows: int, depth: int, quantised: bool) -> NDArray[np.float32]:
    panel, scales = np.full(depth * 32, np.nan, np.float32), np.empty(32, np.float32)
    strips = []
    for strip in range(rows // 32):
        decode_strip(packed.view(np.uint32), 0, strip, depth, quantised, panel, scales)
        strips.append(panel.reshape(depth, 32).T.copy())  # (32, K)
    return np.concatenate(strips)


def test_every_finite_half_decodes_exactly() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    bits = bits[bits & 0x7C00 != 0x7C00]
    got = np.array([float_of_half(b) for b in bits.astype(np.uint32)], np.float32)
    assert got.tobytes() == bits.view(np.float16).astype(np.float32).tobytes()


def test_every_scale_and_level_decodes_exactly() -> None:
    """All 16 levels beside every scale below 8192 in magnitude: 57,344 scales, each with 32 weights."""
    bits = np.arange(65536, dtype=np.uint16)
    d = bits[bits & 0x7FFF < 0x7000].view(np.float16).reshape(-1, 1)
    q = np.random.default_rng(0).permuted(np.tile(np.arange(32, dtype=np.uint8) % 16, (len(d), 1)), axis=1)
    assert decode(pack_q4_32x32(q, d), *q.shape, True).tobytes() == dequantise_q4_0(q, d).tobytes()


def test_blocks_are_found_in_wide_strips() -> None:
    rng = np.random.default_rng(1)
    q = rng.integers(0, 16, (96, 160)).astype(np.uint8)
    d = rng.standard_normal((96, 5)).astype(np.float16)
    assert decode(pack_q4_32x32(q, d), 96, 160, True).tobytes() == dequantise_q4_0(q, d).tobytes()


def test_f32_strips_are_copied() -> None:
    w = np.random.default_rng(2).standard_normal((64, 96)).astype(np.float32)
    assert decode(pack_f32(w), 64, 96, False).tobytes() == w.tobytes()
