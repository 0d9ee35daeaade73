"""Scaled models: their own reference, what saturates in them, and the same changes as attribution's."""

from pathlib import Path

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.evaluate.attribution import attribute
from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.outliers import STEPS, Scaled, open_variant, scaled, wanted
from estream_lab.evaluate.runs import Change
from estream_lab.evaluate.variants import Variant

SHIPPED = Path(__file__).parents[2] / "data" / "tiny_moe" / "checkpoint"
TEXT = np.frombuffer((SHIPPED.parent / "heldout" / "text.txt").read_bytes()[:82], np.uint8).astype(np.int32)
WINDOWS = tuple(Window(TEXT[start : start + 41], 40.0) for start in (0, 41))


@pytest.fixture(scope="module")
def found() -> list[Scaled]:
    return scaled(SHIPPED, WINDOWS, "swiglu", (0, 14))


def test_results_saturate_where_they_are_scaled_and_only_there(found: list[Scaled]) -> None:
    plain, large = found
    assert (plain.windows, plain.tokens) == (2, 80)
    routes = 80 * 2 * 4
    assert plain.values == large.values == {
        "activations": routes * 192, "gate and up": routes * 256, "SwiGLU results": routes * 128,
        "outputs": routes * 192,
    }  # fmt: skip
    assert set(plain.beyond.values()) == {0}
    assert large.beyond["SwiGLU results"] > 0 == large.beyond["activations"]


def test_changes_of_a_scaled_model_are_those_of_attribution(tmp_path: Path, found: list[Scaled]) -> None:
    """Though its store is quantised already, and attribution quantises."""
    chosen = [wanted()[name] for name in ("fp16 operands", "the device")]
    expected = attribute(open_variant(SHIPPED, tmp_path, Variant(swiglu=14)), WINDOWS, chosen)
    large = found[1]
    assert large.bits_per_byte == expected.bits_per_byte != found[0].bits_per_byte
    for row, step in zip(expected.rows, ("fp16 operands", "the device"), strict=True):
        assert large.steps[step] == Change(**{name: getattr(row, name) for name in Change.__dataclass_fields__})
    assert list(large.steps) == [*STEPS, "the device"]
    assert large.steps["fp16 operands"].perplexity_error > 0


def test_too_little_text_is_refused() -> None:
    with pytest.raises(EStreamError, match="needs two tokens"):
        scaled(SHIPPED, [Window(TEXT[:2], 1.0)], "swiglu", (0,))
