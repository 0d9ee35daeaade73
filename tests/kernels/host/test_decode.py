"""Strips decode to the very floats of the NumPy dequantisation."""

import numpy as np

from estream_lab.kernels.arrays import F32, U8
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.decode import decode_blocks
from estream_lab.kernels.host.vector_ir import address
from estream_lab.kernels.layout import BLOCK_BYTES, pack_q4_32x32
from estream_lab.kernels.quant import dequantise_q4_0


@compiled
def decode_into(packed: U8, blocks: int, panel: F32) -> None:
    decode_blocks(address(packed), blocks, address(panel))


def decode(packed: U8, rows: int, depth: int) -> F32:
    """(N, K)."""
    blocks = depth // 32
    strips = []
    for strip in packed[: rows // 32 * blocks * BLOCK_BYTES].reshape(rows // 32, -1):
        panel = np.full((depth + 1, 32), np.nan, np.float32)
        decode_into(strip, blocks, panel.reshape(-1))
        assert np.isnan(panel[-1]).all()
        strips.append(panel[:-1].T)
    return np.concatenate(strips)


def test_every_scale_and_level_decodes_exactly() -> None:
    """All 16 levels beside every scale below 8192 in magnitude: 57,344 scales, each with 32 weights."""
    bits = np.arange(65536, dtype=np.uint16)
    d = bits[bits & 0x7FFF < 0x7000].view(np.float16).reshape(-1, 1)
    q = np.random.default_rng(0).permuted(np.tile(np.arange(32, dtype=np.uint8) % 16, (len(d), 1)), axis=1)
    assert decode(pack_q4_32x32(q, d), *q.shape).tobytes() == dequantise_q4_0(q, d).tobytes()


def test_blocks_are_found_in_wide_strips() -> None:
    rng = np.random.default_rng(1)
    q = rng.integers(0, 16, (96, 160)).astype(np.uint8)
    d = rng.standard_normal((96, 5)).astype(np.float16)
    assert decode(pack_q4_32x32(q, d), 96, 160).tobytes() == dequantise_q4_0(q, d).tobytes()
