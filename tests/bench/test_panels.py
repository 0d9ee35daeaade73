"""The panels that q4-32x32 is compared with: they are what they say, and multiply to the same bits."""

import numpy as np
import pytest

from estream_lab.bench.shapes import LayerShape
from tools import panel_comparison, panels16

SHAPE = LayerShape("tiny", 96, 64, 3, 2, 3.0)


def test_a_panel_holds_its_columns_quad_by_quad() -> None:
    rng = np.random.default_rng(0)
    q, d = rng.integers(0, 16, (48, 64), np.uint8), rng.random((48, 2), np.float32).astype(np.float16)
    packed = panels16.pack_panels(q, d)
    assert packed.shape == (3, 2 * panels16.PANEL_BLOCK_BYTES)
    for panel, column, block, inner in ((0, 0, 0, 0), (1, 5, 1, 6), (2, 15, 0, 31), (2, 7, 1, 13)):
        pair, half, byte = inner // 8, inner % 8 // 4, inner % 4
        found = packed[panel, block * 256 + (pair * 16 + column) * 4 + byte] >> 4 * half & 15
        assert found == q[panel * 16 + column, block * 32 + inner]
        assert packed[panel, 512:].view(np.float16)[block * 16 + column] == d[panel * 16 + column, block]


@pytest.mark.parametrize("tokens", [1, 7, 40, 300])
def test_both_layouts_give_the_same_bits(tokens: int) -> None:
    seconds = panel_comparison.compare(SHAPE, tokens, rounds=2)
    assert len(seconds) == 2 and min(min(pair) for pair in seconds) > 0


def test_other_sums_are_refused() -> None:
    offsets = np.array([0, 5, 5, 30])
    sides = panel_comparison.make_sides(SHAPE, offsets, np.random.default_rng(0))
    panel_comparison.check_equal(sides, SHAPE, offsets)
    sides[1].weights[2][2, 100] ^= 1
    with pytest.raises(ValueError, match="other sums"):
        panel_comparison.check_equal(sides, SHAPE, offsets)
