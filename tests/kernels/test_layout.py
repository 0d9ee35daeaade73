"""The layout is the published formula, coded here anew: never checked through its own unpacker alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from estream_lab.kernels.layout import (
    fast_decode_strips,
    pack_f32,
    pack_q4_32x32,
    pack_tiles,
    pack_weight_tiles,
    projection_bytes,
    tile_element,
    unpack_f32,
    unpack_q4_32x32,
    unpack_tiles,
)

SIZES = st.tuples(st.integers(1, 4).map(lambda n: 32 * n), st.integers(1, 5).map(lambda n: 32 * n), st.integers(0, 9))


def random_q4(rows: int, depth: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 0x7000, (rows, depth // 32)) | rng.integers(0, 2, (rows, depth // 32)) << 15
    return rng.integers(0, 16, (rows, depth)).astype(np.uint8), bits.astype(np.uint16).view(np.float16)


@given(SIZES)
def test_every_nibble_and_scale_is_where_the_formula_says(size: tuple[int, int, int]) -> None:
    rows, depth, seed = size
    q, d = random_q4(rows, depth, seed)
    packed = pack_q4_32x32(q, d)
    n, k = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    block = (n // 32 * (depth // 32) + k // 32) * 576
    j, i = n % 32, k % 32
    byte = packed[block + 128 * (i // 8) + 4 * j + i % 4]
    assert np.array_equal(np.where(i % 8 < 4, byte & 15, byte >> 4), q)
    at = block[:, ::32] + 512 + 2 * j[:, ::32]
    bits = packed[at].astype(np.uint16) | packed[at + 1].astype(np.uint16) << 8
    assert np.array_equal(bits, d.view(np.uint16))


@given(SIZES)
def test_unpacking_restores_q4(size: tuple[int, int, int]) -> None:
    q, d = random_q4(*size)
    packed = pack_q4_32x32(q, d)
    assert len(packed) == projection_bytes("q4-32x32", *q.shape)
    q2, d2 = unpack_q4_32x32(packed, *q.shape)
    assert np.array_equal(q2, q)
    assert np.array_equal(d2.view(np.uint16), d.view(np.uint16))


@given(SIZES)
def test_f32_strips_hold_columns_side_by_side(size: tuple[int, int, int]) -> None:
    rows, depth, seed = size
    w = np.random.default_rng(seed).standard_normal((rows, depth)).astype(np.float32)
    packed = pack_f32(w)
    assert len(packed) == projection_bytes("f32", rows, depth) == 4 * rows * depth
    n, k = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    assert np.array_equal(packed.view(np.float32)[(n // 32 * depth + k) * 32 + n % 32], w)
    assert np.array_equal(unpack_f32(packed, rows, depth), w)


def test_sizes_are_the_published_ones() -> None:
    # OLMoE 2048 x 1024: 18 bytes for 32 weights, no padding; and 3 blocks, padded to 4.
    assert projection_bytes("q4-32x32", 1024, 2048) == 1024 * 2048 // 32 * 18 == 1_179_648
    assert projection_bytes("q4-32x32", 96, 32) == 4 * 576
    assert projection_bytes("q4-32x32", 32, 64) == 2 * 576


def test_the_padding_block_holds_zero_weights() -> None:
    packed = pack_q4_32x32(*random_q4(32, 96, 0))
    assert (packed[3 * 576 : 3 * 576 + 512] == 0x88).all()
    assert not packed[3 * 576 + 512 :].any()


def test_fast_decode_asks_for_normal_scales() -> None:
    q = np.full((128, 64), 3, np.uint8)
    d = np.full((128, 2), 0.25, np.float16)
    d[33, 1] = 2.0**-15  # strip 1: a subnormal scale
    d[64, 0] = 0.0  # strip 2: zero scale with zero weights only
    q[64, :32] = 8
    d[96, 0], q[96, :31] = -0.0, 8  # strip 3: zero scale, one weight with q = 3
    assert fast_decode_strips(q, d).tolist() == [True, False, True, False]


@pytest.mark.parametrize(("rows", "depth"), [(48, 32), (32, 40), (0, 32)])
def test_refuses_sizes_off_the_grid(rows: int, depth: int) -> None:
    for layout in ("q4-32x32", "f32"):
        with pytest.raises(ValueError, match="multiples of 32"):
            projection_bytes(layout, rows, depth)


def test_refuses_unknown_layouts_short_buffers_and_foreign_scales() -> None:
    with pytest.raises(ValueError, match="q4-16x16"):
        projection_bytes("q4-16x16", 32, 32)
    q, d = random_q4(32, 64, 0)
    with pytest.raises(ValueError, match="1152 bytes, not 1151"):
        unpack_q4_32x32(pack_q4_32x32(q, d)[:-1], 32, 64)
    with pytest.raises(ValueError, match="do not fit"):
        pack_q4_32x32(q, d[:, :1])


def test_tiles_hold_each_element_where_the_formula_says() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 1 << 16, (96, 64)).astype(np.uint16)
    tiles, weights = pack_tiles(matrix), pack_weight_tiles(matrix)
    assert tiles.nbytes == weights.nbytes == matrix.nbytes
    for i, j in rng.integers(0, (96, 64), (300, 2)):
        # Activations (rows x K): row tile by row tile. Byte (i/2) * 128 + j * 4 + (i mod 2) * 2 within a tile.
        tile = (i // 32) * 2 + j // 32
        at = 2048 * tile + (i % 32 // 2) * 128 + (j % 32) * 4 + (i % 2) * 2
        assert tile_element(i % 32, j % 32) == at % 2048
        assert int.from_bytes(tiles[at : at + 2].tobytes(), "little") == matrix[i, j]
        # Weights (N outputs, K inputs): strip of 32 outputs, K tile; element (k, output) of the tile.
        at = 2048 * ((i // 32) * 2 + j // 32) + (j % 32 // 2) * 128 + (i % 32) * 4 + (j % 2) * 2
        assert int.from_bytes(weights[at : at + 2].tobytes(), "little") == matrix[i, j]
    assert np.array_equal(unpack_tiles(tiles, 96, 64), matrix)
    assert sorted(tile_element(i, j) for i in range(32) for j in range(32)) == list(range(0, 2048, 2))


@pytest.mark.parametrize("shape", [(32, 33), (31, 32), (0, 32)])
def test_tiles_of_other_sizes_are_refused(shape: tuple[int, int]) -> None:
    for pack in (pack_tiles, pack_weight_tiles):
        with pytest.raises(ValueError, match="multiples of 32"):
            pack(np.zeros(shape, np.uint16))
    with pytest.raises(ValueError, match="take 4096 bytes, not 2048"):
        unpack_tiles(np.zeros(2048, np.uint8), 32, 64)
