"""What expert operators are called with: checked once, for every operator."""

from typing import Any

import numpy as np
import pytest

from estream_lab.kernels.bank import BankCall, BankScratch
from estream_lab.kernels.layout import projection_bytes

SIZE = projection_bytes("q4-32x32", 32, 32)


def call(**changed: Any) -> BankCall:
    """Three routes of two slots; of the second, which has none, the offsets are no matter."""
    given = {
        "x": np.zeros((4, 32), np.float32),
        "y": np.zeros((4, 32), np.float32),
        "offsets": np.array([0, 3, 3]),
        "token": np.array([0, 3, 1], np.int32),
        "weight": np.ones(3, np.float32),
        "arena": np.zeros(3 * SIZE, np.uint8),
        "planes": tuple(np.array([i * SIZE, -1]) for i in range(3)),
        "hidden": 32,
        "ffn": 32,
        "layout": "q4-32x32",
    }
    return BankCall.checked(**{**given, **changed})


def test_what_fits_is_handed_on_without_a_copy_and_read_only_but_y() -> None:
    x, y = np.zeros((4, 32), np.float32), np.zeros((4, 32), np.float32)
    found = call(x=x, y=y)
    assert found.y is y and np.shares_memory(found.x, x)
    assert [name for name, array in vars(found).items() if array.flags.writeable] == ["y"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": np.zeros((4, 64), np.float32)}, r"x must have shape \(any, 32\)"),
        ({"y": np.zeros((3, 32), np.float32)}, r"y must have shape \(4, 32\)"),
        ({"weight": np.ones(2, np.float32)}, r"weight must have shape \(3\)"),
        ({"planes": (np.zeros(1, np.int64),) * 3}, r"gate must have shape \(2\)"),
        ({"offsets": np.array([0, 2, 1])}, "rise from 0 to the number of routes, 3"),
        ({"offsets": np.array([1, 2, 3])}, "rise from 0"),
        ({"token": np.array([0, 4, 1], np.int32)}, "names token 0 or 4 of 4"),
        ({"layout": "q8-32x32"}, "the layouts q4-32x32, f32, not 'q8-32x32'"),
        ({"arena": np.zeros(3 * SIZE, np.int8)}, "flat, contiguous array of bytes"),
        ({"arena": np.zeros(3 * SIZE + 1, np.uint8)[1:]}, "a multiple of 4"),
        ({"arena": np.zeros(3 * SIZE - 1, np.uint8)}, "outside the arena of"),
        ({"planes": tuple(np.array([i * SIZE + 2, 0]) for i in range(3))}, "off a multiple of 4"),
        ({"planes": (np.array([-4, 0]), np.array([0, 0]), np.array([0, 0]))}, "outside the arena"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(**changed)


@pytest.mark.parametrize("place", range(4))
def test_temporaries_of_nothing_are_refused(place: int) -> None:
    sizes = [10, 64, 32, 1]
    BankScratch(*sizes)
    sizes[place] = 0
    with pytest.raises(ValueError, match="at least one row, column and thread"):
        BankScratch(*sizes)
