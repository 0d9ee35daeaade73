"""The table of one scale's sixteen weights, for scales of every size, against the `gguf` package's decoder."""

from fractions import Fraction

import gguf
import numpy as np
import pytest

from estream_lab.viz.figures import decode_table

RNG = np.random.default_rng(8)
SCALES = np.unique(
    np.concatenate([
        [0, 1, 2, 3, 0x3FE, 0x3FF, 0x400, 0x401, 0x6FFF],  # zero, subnormals to the last one, normals to the last one
        RNG.integers(1, 0x400, 40),
        np.arange(0x400, 0x7000, 0x400) - 1,  # the last of each exponent
        RNG.integers(0x400, 0x7000, 40),
    ])
).astype(np.uint16)  # fmt: skip


def weights_of(scales: np.ndarray) -> np.ndarray:
    """(n, 16) float32, for q = 0 … 15, by the independent decoder."""
    blocks = np.empty((len(scales), 18), np.uint8)
    blocks[:, :2] = scales.astype("<u2")[:, None].view(np.uint8)
    blocks[:, 2:] = np.arange(16)
    return np.asarray(gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q4_0), np.float32)[:, :16]


@pytest.mark.parametrize("sign", [0, 0x8000])
def test_every_scale_below_8192_is_shown_as_it_decodes(sign: int) -> None:
    scales = SCALES | np.uint16(sign)
    for d, exact in zip(scales.view(np.float16).tolist(), weights_of(scales), strict=True):
        columns = decode_table(d, {}).data[0].cells["values"]
        rounded = exact.astype(np.float16)
        assert [int(code, 16) for code in columns[7]] == rounded.view(np.uint16).tolist()
        assert np.array_equal(np.array(columns[6], np.float32), np.array([f"{w:.9g}" for w in rounded], np.float32))
        integers, results = ([int(n.replace(",", "")) for n in columns[place]] for place in (2, 4))
        for q, (integer, result, outcome) in enumerate(zip(integers, results, columns[5], strict=True)):
            assert (outcome == "exact") == (rounded[q] == exact[q])
            if d == 0 or q == 8:
                assert integer == result == 0
            else:  # the same unit for what is rounded and what it is rounded to
                unit = abs(Fraction(float(exact[q]))) / integer
                assert result * unit == abs(Fraction(float(rounded[q])))


@pytest.mark.parametrize("scale", [8192.0, -8192.0, 65504.0, np.inf, np.nan])
def test_larger_scales_are_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="a scale of 8192 or more in magnitude: its weights overflow fp16"):
        decode_table(scale, {})


@pytest.mark.parametrize("scale", [8192.0, -1e9, float("inf"), float("nan")])
def test_a_scale_whose_weights_overflow_is_refused_without_a_warning(scale: float) -> None:
    with pytest.raises(ValueError, match="a scale of 8192 or more"):
        decode_table(scale, {"kind": "computed"})
