"""Adding a tile's rows to the rows of y that their routes name, which lie anywhere in memory."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from estream_lab.kernels.apart import emitted
from estream_lab.kernels.arrays import F32, I32
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import COLUMNS, address
from estream_lab.kernels.vectors import F32 as FLOAT
from estream_lab.kernels.vectors import broadcast, load, prefetch, store, vector

_AHEAD = 8  # rows between the one that is added to and the one that is brought from memory


@intrinsic
def _add_scaled(typing_context: Any, y: Any, x: Any, factor: Any) -> Any:
    """``y += factor * x`` for 32 float32 numbers at two addresses: a multiplication, then an addition."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, source, a = arguments
        kind = vector(FLOAT, COLUMNS)
        product = builder.fmul(broadcast(builder, a, COLUMNS), load(builder, source, 0, kind))
        store(builder, builder.fadd(load(builder, to, 0, kind), product), to, 0)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.float32), codegen


def _prefetch(builder: ir.IRBuilder, place: ir.Value) -> None:
    prefetch(builder, place, 0, 4 * COLUMNS)


_bring = emitted(_prefetch)
"""Have 32 float32 numbers at an address brought into the cache."""


@compiled
def scatter(y: int, hidden: int, token: I32, weight: F32, first: int, rows: int, tiles: F32, strips: int) -> None:
    """y[token[i]] += weight[i] * tile row i - first, for `rows` routes i from `first` on.

    y is the address of a row 0 of `hidden` float32 numbers, from the first column that is added to; tiles (n, rows' 32
    columns each) hold `strips` neighbouring strips of 32 columns.
    """
    end = first + rows
    for i in range(first, end):
        coming = y + 4 * hidden * token[min(i + _AHEAD, end - 1)]
        row = y + 4 * hidden * token[i]
        for s in range(strips):
            _bring(coming + 4 * COLUMNS * s)
            _add_scaled(row + 4 * COLUMNS * s, address(tiles[s]) + 4 * COLUMNS * (i - first), weight[i])
