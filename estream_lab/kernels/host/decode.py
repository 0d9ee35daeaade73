"""Packed weights to fp32, as the host kernels use them: (K, 32), of one strip."""

from __future__ import annotations

from llvmlite import ir

from estream_lab.kernels.apart import emitted
from estream_lab.kernels.features import features
from estream_lab.kernels.host.vector_ir import COLUMNS, LANES
from estream_lab.kernels.layout import BLOCK_BYTES, NIBBLE_BYTES
from estream_lab.kernels.vectors import (
    F32,
    I16,
    I32,
    I64,
    constant,
    floats_of_halves,
    load,
    loop,
    prefetch,
    store,
    vector,
)

_AHEAD = 8
_NATIVE_HALF = not features().isdisjoint({"f16c", "avx512f"})


def _decode_blocks(builder: ir.IRBuilder, w: ir.Value, blocks: ir.Value, panel: ir.Value) -> None:
    floats, integers = vector(F32, LANES), vector(I32, LANES)
    steps = ((w, ir.Constant(I64, BLOCK_BYTES)), (panel, ir.Constant(I64, 4 * COLUMNS * COLUMNS)))
    with loop(builder, blocks, *steps) as (block, rows):
        prefetch(builder, block, _AHEAD * BLOCK_BYTES, BLOCK_BYTES)
        for first in range(0, COLUMNS, LANES):
            halves = load(builder, block, NIBBLE_BYTES + 2 * first, vector(I16, LANES), align=2)
            scales = floats_of_halves(builder, halves, _NATIVE_HALF)
            for octet in range(4):  # byte i of a word has inputs i (low) and i + 4 (high) of the octet
                words = load(builder, block, 4 * (octet * COLUMNS + first), integers)
                for i in range(8):
                    shifted = builder.lshr(words, constant(integers, 8 * (i % 4) + i // 4 * 4))
                    q = builder.sub(builder.and_(shifted, constant(integers, 15)), constant(integers, 8))
                    weights = builder.fmul(builder.sitofp(q, floats), scales)
                    store(builder, weights, rows, 4 * ((8 * octet + i) * COLUMNS + first))


decode_blocks = emitted(_decode_blocks)
"""``decode_blocks(w, blocks, panel)``: `blocks` >= 1 blocks of a strip in q4-32x32, at the address w, become a panel of
``(32 * blocks, 32)`` floats at the address panel, those of `dequantise_q4_0`, bit for bit."""
