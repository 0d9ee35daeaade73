"""The digest of how functions are rounded tells one last bit."""

import os
import subprocess
import sys

import numpy as np
import pytest

from estream_lab.evaluate.rounding import rounding_digest


def test_the_same_computer_has_the_same_digest() -> None:
    code = "from estream_lab.evaluate.rounding import rounding_digest; print(rounding_digest())"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert other.stdout.strip() == rounding_digest()


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "expm1"])
def test_one_last_bit_of_one_function_changes_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, function = rounding_digest(), getattr(np, name)

    def other(values: np.ndarray) -> np.ndarray:
        made = np.array(function(values))
        made[7] = np.nextafter(made[7], made.dtype.type(9))
        return made

    monkeypatch.setattr(np, name, other)
    assert rounding_digest() != before
