from fractions import Fraction

import numpy as np
import pytest

from estream_lab.viz.explore import AccumulatorExplorer
from tests.viz.hand_made import same

RNG = np.random.default_rng(4)
A = RNG.standard_normal((3, 64)).astype(np.float16).view(np.uint16)
B = RNG.standard_normal((32, 64)).astype(np.float16).view(np.uint16)
A[1, 8:16] = 0


@pytest.fixture
def explorer() -> AccumulatorExplorer:
    return AccumulatorExplorer(A, B, {"kind": "computed"})


def test_the_line_tells_the_exact_sum_so_far(explorer: AccumulatorExplorer) -> None:
    a, b = (codes.view(np.float16).astype(float) for codes in (A, B))
    for row, output, group in ((0, 0, 0), (2, 31, 7), (1, 5, 4)):
        for name, value in (("row", row), ("output", output), ("group", group)):
            explorer.controls[name].value = value
        pairs = zip(a[row, : 8 * group + 8], b[output], strict=False)
        exact = float(sum((Fraction(m) * Fraction(n) for m, n in pairs), start=Fraction(0)))
        assert f"<b>Group {group + 1} of 8</b> (k = {8 * group} … {8 * group + 7}): " in explorer.line.value
        assert f"exact so far: {exact:+.9g}, " in explorer.line.value
        assert same(explorer)


def test_a_group_of_zeros_is_passed_over(explorer: AccumulatorExplorer) -> None:
    explorer.controls["row"].value = 1
    explorer.controls["group"].value = 1
    assert "the accumulator passes it over" in explorer.line.value


def test_another_profile_stays_near_the_same_products(explorer: AccumulatorExplorer) -> None:
    explorer.controls["group"].value = 5  # from k = 40 on
    for name, count, group in (("ieee_fp32", 64, 40), ("hmx_v73_g4", 16, 10), ("hmx_v81_g8_a39", 8, 5)):
        explorer.controls["profile_name"].value = name
        assert explorer.line.value.startswith(f"<b>Group {group + 1} of {count}</b> (k = 40")
        assert explorer.controls["group"].max == count - 1
        assert name in explorer.head.value


def test_the_static_figure_tells_its_settings(explorer: AccumulatorExplorer) -> None:
    explorer.controls["output"].value = 3
    assert explorer.figure.layout.title.subtitle.text.startswith("row 0, output 3, group 0<br>computed")
