"""Packing and decoding are held to the `gguf` package's decoder; packed bytes are read by the published formula.

Never through our own unpacker: a packer and an unpacker with the same fault restore what they were given.
"""

from collections.abc import Callable

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.kernels.exact import ExactOperator, decode_q4
from estream_lab.kernels.layout import pack_q4_32x32, pack_weight_tiles
from estream_lab.kernels.vtcm import steps

U8, U16, F16, F32 = NDArray[np.uint8], NDArray[np.uint16], NDArray[np.float16], NDArray[np.float32]
Packer = Callable[[U8, F16], U8]

BLOCK_BYTES = 18  # of GGUF's Q4_0: an fp16 scale, then byte j with weights j (low) and j + 16 (high)

# (N, K). 1408 is the FFN of DeepSeek-V2-Lite: a multiple of 32 and of 128, not of 256.
SHAPES = [(64, 1408), (1408, 64), (32, 32), (32, 96), (96, 352), (64, 576), (32, 2816), (64, 256), (32, 1792)]
NOT_BY_256 = [shape for shape in SHAPES if shape[1] % 256]


def gguf_blocks(shape: tuple[int, int], seed: int) -> U8:
    """Random Q4_0 bytes, (N, K / 32 * 18): any nibbles; any scale below 8192 in magnitude, subnormals and zeros too."""
    rows, depth = shape
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (rows, depth // 32, BLOCK_BYTES)).astype(np.uint8)
    scales = rng.integers(0, 0x7000, (rows, depth // 32, 1)) | rng.integers(0, 2, (rows, depth // 32, 1)) << 15
    blocks[..., :2] = scales.astype("<u2").view(np.uint8)
    return blocks.reshape(rows, -1)


def truth(blocks: U8) -> F32:
    """The weights, by the independent decoder."""
    return np.asarray(gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q4_0), np.float32)


def nibbles_and_scales(blocks: U8) -> tuple[U8, F16]:
    """q (N, K) and d (N, K / 32) as the file format has them."""
    each = blocks.reshape(len(blocks), -1, BLOCK_BYTES)
    q = np.concatenate([each[..., 2:] & 15, each[..., 2:] >> 4], axis=-1)
    return q.reshape(len(blocks), -1), np.ascontiguousarray(each[..., :2]).view("<f2")[..., 0].astype(np.float16)


def read_by_formula(packed: U8, shape: tuple[int, int]) -> F32:
    """Each weight alone from q4-32x32: strips of 32 outputs, blocks of 576 bytes, as the device reads them."""
    n, k = np.indices(shape)
    block = (n // 32 * (shape[1] // 32) + k // 32) * 576
    byte = packed[block + k % 32 // 8 * 128 + n % 32 * 4 + k % 4].astype(np.int64)
    nibble = np.where(k % 8 < 4, byte % 16, byte // 16)
    low, high = (packed[block + 512 + n % 32 * 2 + i].astype(np.uint16) for i in (0, 1))
    scale = (high * 256 + low).view(np.float16).astype(np.float32)
    with np.errstate(invalid="ignore"):  # what a faulty packer leaves there as scales may be infinite
        return np.asarray((nibble - 8).astype(np.float32) * scale, np.float32)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_packed_bytes_hold_ggufs_weights(shape: tuple[int, int]) -> None:
    blocks = gguf_blocks(shape, 1)
    assert read_by_formula(pack_q4_32x32(*nibbles_and_scales(blocks)), shape).tobytes() == truth(blocks).tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_decoding_is_ggufs_weights_rounded_to_fp16(shape: tuple[int, int]) -> None:
    blocks = gguf_blocks(shape, 2)
    decoded = decode_q4(*nibbles_and_scales(blocks))
    assert decoded.shape == shape and decoded.dtype == np.uint16
    assert np.array_equal(decoded, truth(blocks).astype(np.float16).view(np.uint16))


def every_pair() -> U8:
    """Blocks of every scale below 8192 in magnitude, either sign, zeros and subnormals too; in each all 16 nibbles."""
    scales = np.arange(0x7000, dtype="<u2")
    both = np.concatenate([scales, scales | 0x8000])
    blocks = np.empty((len(both), BLOCK_BYTES), np.uint8)
    blocks[:, :2] = both[:, None].view(np.uint8)
    blocks[:, 2:] = np.arange(16) * 17
    return blocks.reshape(-1, 8 * BLOCK_BYTES)  # (7168, 256 weights)


def test_every_pair_of_scale_and_nibble_decodes_as_numpy_rounds_it() -> None:
    blocks = every_pair()
    q, d = nibbles_and_scales(blocks)
    decoded, exact = decode_q4(q, d), truth(blocks)
    assert np.array_equal(decoded, exact.astype(np.float16).view(np.uint16))  # codes: the sign of a zero counts
    scales = np.repeat(d.view(np.uint16), 32, axis=1)
    pairs = np.unique(scales.astype(np.int64) * 16 + q)
    assert len(pairs) == 2 * 0x7000 * 16 == 917_504
    # 958,088 pairs round to a finite code in all; the other 40,584 have scales of 8192 or more, which are refused.
    large = np.arange(0x7000, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    beyond = 2 * np.count_nonzero(np.abs(large[:, None] * np.arange(-8, 8)) < 65520)
    assert beyond == 40_584 and len(pairs) + beyond == 958_088


def test_every_pair_decodes_alike_in_the_operators_steps() -> None:
    """Fetched from a packed projection and decoded into the tiles of its panels, as the device runs it."""
    blocks = every_pair()
    q, d = nibbles_and_scales(blocks)
    packed, expected = pack_q4_32x32(q, d), truth(blocks).astype(np.float16).view(np.uint16)
    operator = ExactOperator(q.shape[1], len(q), 1, "ieee_fp32")
    x, none = np.zeros((1, q.shape[1]), np.float32), np.zeros(1, np.float32)
    seen = 0
    for step in steps(operator.plan, 1):
        if step.projection == "gate_up" and step.kind in ("fetch", "decode"):
            operator._run(step, x, x, np.zeros(1, np.int32), none, [packed, packed, packed])
        if step.projection == "gate_up" and step.kind == "decode":
            tiles = pack_weight_tiles(expected[step.first_column : step.first_column + step.columns])
            assert all(np.array_equal(operator._bytes(access), tiles) for access in step.writes)
            seen += step.columns
    assert seen == len(q)
    subnormal = (d.view(np.uint16) & 0x7FFF < 0x0400) & (d != 0)
    assert subnormal.sum() == 2 * 1023


@pytest.mark.parametrize("scale", [8192.0, -8192.0, 65504.0, np.inf, -np.inf, np.nan])
def test_scales_that_are_too_large_or_no_numbers_are_refused(scale: float) -> None:
    q, d = np.full((32, 1408), 8, np.uint8), np.full((32, 44), 0.5, np.float16)
    d[17, 43] = scale
    with pytest.raises(ValueError, match="scale of 8192"):
        decode_q4(q, d)


def overlapping(q: U8, d: F16) -> U8:
    """A planted fault: in a row's last, short run of blocks, scales lie 64 bytes late, on the neighbour's weights."""
    packed, blocks = pack_q4_32x32(q, d), q.shape[1] // 32
    for strip in range(len(q) // 32):
        for block in range(blocks // 8 * 8, blocks):
            at = (strip * blocks + block) * 576 + 512
            packed[at + 64 : at + 128] = packed[at : at + 64][: len(packed[at + 64 : at + 128])]
    return packed


def tail_of_a_row(packed: U8, shape: tuple[int, int]) -> list[U8]:
    """Of each strip the bytes of the blocks after the last whole 256 inputs."""
    blocks = shape[1] // 32
    strips = packed[: shape[0] // 32 * blocks * 576].reshape(-1, blocks * 576)
    return [strip[blocks // 8 * 8 * 576 :] for strip in strips]


def gathered(q: U8, d: F16) -> U8:
    """A planted fault: such a run holds all its weights first, then its scales; so weights lie where scales belong."""
    packed = pack_q4_32x32(q, d)
    for tail in tail_of_a_row(packed, q.shape):
        each = tail.reshape(-1, 576).copy()
        tail[:] = np.concatenate([each[:, :512].ravel(), each[:, 512:].ravel()])
    return packed


def scattered(packed: U8, shape: tuple[int, int]) -> U8:
    """What an unpacker with the fault of `gathered` does first."""
    packed = packed.copy()
    for tail in tail_of_a_row(packed, shape):
        count = len(tail) // 576
        weights, scales = tail[: count * 512].reshape(count, 512), tail[count * 512 :].reshape(count, 64)
        tail[:] = np.concatenate([weights, scales], axis=1).ravel()
    return packed


@pytest.mark.parametrize("packer", [overlapping, gathered])
@pytest.mark.parametrize("shape", [shape for shape in NOT_BY_256 if shape[1] > 64], ids=str)
def test_scales_that_overlap_weights_are_caught(packer: Packer, shape: tuple[int, int]) -> None:
    blocks = gguf_blocks(shape, 3)
    assert read_by_formula(packer(*nibbles_and_scales(blocks)), shape).tobytes() != truth(blocks).tobytes()


def test_a_round_trip_with_the_same_fault_would_not_catch_it() -> None:
    shape = (64, 1408)
    blocks = gguf_blocks(shape, 3)
    packed = gathered(*nibbles_and_scales(blocks))
    assert read_by_formula(scattered(packed, shape), shape).tobytes() == truth(blocks).tobytes()
    assert read_by_formula(packed, shape).tobytes() != truth(blocks).tobytes()


def test_rows_of_whole_256s_do_not_show_the_fault() -> None:
    q, d = nibbles_and_scales(gguf_blocks((32, 1792), 4))
    assert np.array_equal(gathered(q, d), pack_q4_32x32(q, d))
    assert np.array_equal(overlapping(q, d), pack_q4_32x32(q, d))
