"""How a projection's weights lie in memory: the one layout that every lane reads, and its fp32 companion.

A projection W (N outputs, K inputs) is cut into strips of 32 outputs ("columns" of the product x Wᵀ).

``q4-32x32``: a strip is a run of blocks, one for each 32 inputs; block (strip s, K block b) starts at byte
``(s * K/32 + b) * 576``. Within it, element (k, j) (input k, column j, both modulo 32) is a nibble of byte
``128 * (k // 8) + 4 * j + k % 4``: the low one if ``k % 8 < 4``, else the high one. The fp16 scale of column j is at
byte ``512 + 2 * j``. A projection with an odd number of blocks ends with one block of padding, because vector units
read blocks in pairs.

``f32``: strips as (N/32, K, 32) float32, for exactness tests.

On chip, a matrix unit (HMX) takes fp16 operands in *tiles* of 32 x 32 halfwords, 2048 bytes; element (i, j) is at byte
``(i // 2) * 128 + j * 4 + (i % 2) * 2``: two rows interleaved. Activations (rows x K) lie row tile by row tile, their K
tiles in order; weights (K x columns) column strip by column strip, each with all of its K tiles; outputs (rows x
columns) row tile by row tile. (Public sources on Hexagon, gathered in docs/numerics.md; not checked on a device.)
"""

import numpy as np
from numpy.typing import NDArray

STRIP = 32
"""Output columns of a strip, and inputs of a block."""

BLOCK_BYTES = 576
"""A 32 x 32 block of q4-32x32: 512 bytes of nibbles, 64 bytes of scales."""

NIBBLE_BYTES = 512
"""Of a packed block; its fp16 scales follow."""

TILE_BYTES = 2048
"""A tile of 32 x 32 fp16 numbers."""

Q4 = "q4-32x32"
"""The layout of Q4_0 weights that every lane reads."""

LAYOUTS = (Q4, "f32")

_SMALLEST_NORMAL = 0x0400  # bits of fp16 2^-14


def projection_bytes(layout: str, out_features: int, in_features: int) -> int:
    """Bytes of one projection of `out_features` x `in_features` weights, padding block included.

    Raises:
        ValueError: an unknown layout, or sizes that are not multiples of 32.
    """
    _check(out_features, in_features)
    if layout == "f32":
        return out_features * in_features * 4
    if layout == "q4-32x32":
        blocks = (out_features // STRIP) * (in_features // STRIP)
        return (blocks + blocks % 2) * BLOCK_BYTES
    raise ValueError(f"unknown layout {layout!r}: one of {', '.join(LAYOUTS)}")


def pack_q4_32x32(q: NDArray[np.uint8], d: NDArray[np.float16]) -> NDArray[np.uint8]:
    """Pack Q4_0 weights into q4-32x32.

    Args:
        q: (N, K) uint8 in 0..15; N and K multiples of 32.
        d: (N, K // 32) float16.

    Returns:
        (`projection_bytes("q4-32x32", N, K)`,) uint8. A padding block holds zero weights (q = 8, d = 0).
    """
    rows, depth = q.shape
    _check(rows, depth)
    strips, blocks = rows // STRIP, depth // STRIP
    if d.shape != (rows, blocks):
        raise ValueError(f"scales of shape {d.shape} do not fit weights of shape {q.shape}")
    packed = np.empty(projection_bytes("q4-32x32", rows, depth), np.uint8)
    body = packed[: strips * blocks * BLOCK_BYTES].reshape(strips, blocks, BLOCK_BYTES)
    t = q.reshape(strips, STRIP, blocks, 4, 2, 4)  # strip, column, block, k // 8, low or high, k % 4
    nibbles = t[:, :, :, :, 0] | (t[:, :, :, :, 1] << 4)  # strip, column, block, k // 8, k % 4
    body[..., :NIBBLE_BYTES] = nibbles.transpose(0, 2, 3, 1, 4).reshape(strips, blocks, NIBBLE_BYTES)
    scales = d.astype("<f2").reshape(strips, STRIP, blocks).swapaxes(1, 2)  # strip, block, column
    body[..., NIBBLE_BYTES:] = np.ascontiguousarray(scales).view(np.uint8)
    padding = packed[strips * blocks * BLOCK_BYTES :]
    padding[:NIBBLE_BYTES] = 0x88
    padding[NIBBLE_BYTES:] = 0
    return packed


def unpack_q4_32x32(
    buf: NDArray[np.uint8], out_features: int, in_features: int
) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """The inverse of `pack_q4_32x32`: q (N, K) uint8 and d (N, K // 32) float16."""
    buf = _body(buf, "q4-32x32", out_features, in_features)
    strips, blocks = out_features // STRIP, in_features // STRIP
    body = buf[: strips * blocks * BLOCK_BYTES].reshape(strips, blocks, BLOCK_BYTES)
    n = body[..., :NIBBLE_BYTES].reshape(strips, blocks, 4, STRIP, 4)  # strip, block, k // 8, column, k % 4
    both = np.stack([n & 15, n >> 4], axis=3)  # strip, block, k // 8, low or high, column, k % 4
    q = both.transpose(0, 4, 1, 2, 3, 5).reshape(out_features, in_features)
    scales = np.ascontiguousarray(body[..., NIBBLE_BYTES:]).view("<f2")  # strip, block, column
    d = scales.swapaxes(1, 2).reshape(out_features, blocks).astype(np.float16)
    return q, d


def pack_f32(w: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Pack (N, K) float32 weights into strips (N/32, K, 32), as bytes."""
    rows, depth = w.shape
    _check(rows, depth)
    strips = np.asarray(w, "<f4").reshape(rows // STRIP, STRIP, depth).swapaxes(1, 2)
    return np.ascontiguousarray(strips).reshape(-1).view(np.uint8)


def unpack_f32(buf: NDArray[np.uint8], out_features: int, in_features: int) -> NDArray[np.float32]:
    """The inverse of `pack_f32`: (N, K) float32."""
    buf = np.ascontiguousarray(_body(buf, "f32", out_features, in_features))
    strips = buf.view("<f4").reshape(out_features // STRIP, in_features, STRIP)
    return np.ascontiguousarray(strips.swapaxes(1, 2)).reshape(out_features, in_features).astype(np.float32, copy=False)


def tile_element(i: int, j: int) -> int:
    """Byte of element (i, j) within a tile, 0 <= i, j < 32."""
    return (i // 2) * 128 + j * 4 + (i % 2) * 2


def pack_tiles(matrix: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """A matrix of fp16 codes as tiles, row tile by row tile: activations and outputs lie so.

    For the weights of a product, (K, columns), this is the order of K tiles first: see `pack_weight_tiles`.

    Args:
        matrix: (R, C) uint16, both multiples of 32.

    Returns:
        (R / 32 * C / 32 * 2048,) uint8.
    """
    rows, columns = matrix.shape
    _check(rows, columns)
    t = matrix.reshape(rows // STRIP, STRIP // 2, 2, columns // STRIP, STRIP)  # row tile, i // 2, i % 2, column tile, j
    return np.ascontiguousarray(t.transpose(0, 3, 1, 4, 2), "<u2").reshape(-1).view(np.uint8)


def unpack_tiles(buf: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.uint16]:
    """The inverse of `pack_tiles`: (rows, columns) uint16."""
    _check(rows, columns)
    size = rows * columns * 2
    if buf.ndim != 1 or len(buf) < size:
        raise ValueError(f"tiles of {rows} x {columns} take {size} bytes, not {buf.size}")
    t = np.ascontiguousarray(buf[:size]).view("<u2")
    t = t.reshape(rows // STRIP, columns // STRIP, STRIP // 2, STRIP, 2)  # row tile, column tile, i // 2, j, i % 2
    return np.ascontiguousarray(t.transpose(0, 2, 4, 1, 3)).reshape(rows, columns).astype(np.uint16, copy=False)


def pack_weight_tiles(weights: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Weights of a product as tiles: strips of 32 outputs in order, each with its K tiles; element (k, j) of a tile.

    Args:
        weights: (N, K) uint16 fp16 codes, N outputs and K inputs, multiples of 32.

    Returns:
        (N / 32 * K / 32 * 2048,) uint8.
    """
    outputs, depth = weights.shape
    _check(outputs, depth)
    t = weights.reshape(outputs // STRIP, STRIP, depth // STRIP, STRIP // 2, 2)  # strip, j, K tile, k // 2, k % 2
    return np.ascontiguousarray(t.transpose(0, 2, 3, 1, 4), "<u2").reshape(-1).view(np.uint8)


def fast_decode_strips(q: NDArray[np.uint8], d: NDArray[np.float16]) -> NDArray[np.bool_]:
    """Which strips the NPU may decode by its short exact path.

    That path asks for every scale to be a normal fp16 number, or zero with all 32 weights zero (q = 8).

    Args:
        q: (N, K) uint8; d: (N, K // 32) float16.

    Returns:
        (N // 32,) bool.
    """
    rows, depth = q.shape
    magnitude = np.ascontiguousarray(d).view(np.uint16) & 0x7FFF
    empty = (magnitude == 0) & (q.reshape(rows, depth // STRIP, STRIP) == 8).all(axis=-1)
    fits = (magnitude >= _SMALLEST_NORMAL) | empty  # (N, K/32)
    return np.asarray(fits.reshape(rows // STRIP, -1).all(axis=1), np.bool_)


def _body(buf: NDArray[np.uint8], layout: str, out_features: int, in_features: int) -> NDArray[np.uint8]:
    size = projection_bytes(layout, out_features, in_features)
    if buf.ndim != 1 or len(buf) < size:
        raise ValueError(f"a {out_features} x {in_features} projection in {layout} takes {size} bytes, not {buf.size}")
    return buf[:size]


def _check(out_features: int, in_features: int) -> None:
    if out_features <= 0 or in_features <= 0 or out_features % STRIP or in_features % STRIP:
        raise ValueError(f"a matrix of {out_features} x {in_features}: both sizes must be multiples of {STRIP}")
