"""What a bench will hold is known before anything is made."""

from types import SimpleNamespace
from typing import Any

import pytest

from estream_lab.bench import memory
from estream_lab.bench.inputs import KINDS, Inputs
from estream_lab.bench.shapes import LayerShape
from estream_lab.bench.weights import Weights
from estream_lab.errors import EStreamError

SMALL, LARGE = LayerShape("small", 64, 32, 4, 2, 3.0), LayerShape("large", 64, 96, 8, 2, 3.0)


def row(bytes_per_weight: float, copies: int = 1) -> Any:
    return SimpleNamespace(bytes_per_weight=bytes_per_weight, copies=copies)


def test_all_rows_hold_all_their_weights_at_once() -> None:
    one, two = memory.peak_bytes([row(4)], LARGE, 1), memory.peak_bytes([row(4), row(0.5)], LARGE, 1)
    held = two - one - 0.5 * LARGE.weights
    assert 0 < held < 4 * 2 * (3 * LARGE.ffn + 2 * LARGE.hidden) + 1  # a token's intermediates
    assert memory.peak_bytes([row(0.5, 2)], LARGE, 1) - memory.peak_bytes([row(0.5)], LARGE, 1) == 0.5 * LARGE.weights
    assert memory.peak_bytes([row(4)], LARGE, 100) - one == 99 * held


def test_the_largest_shape_with_most_tokens_must_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = memory.peak_bytes([row(4)], LARGE, 9)
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: needed)
    assert memory.check([row(4)], [LARGE, SMALL], [9, 3]) == needed
    with pytest.raises(EStreamError, match="1 rows of large with 10 tokens need 0.0 GiB of memory at their peak"):
        memory.check([row(4)], [SMALL, LARGE], [3, 10])


def test_files_are_counted_with_their_inputs(tmp_path: Any) -> None:
    weights = Weights.write(LARGE, tmp_path, seed=1)
    for kind in (*KINDS, "gaussian"):
        Inputs.draw(LARGE, 5, kind, 1, tmp_path / f"{kind}{len(list(tmp_path.iterdir()))}")
    (tmp_path / "own").write_bytes(bytes(weights.plain.stat().st_size))
    (tmp_path / "y").write_bytes(bytes(4 * 5 * LARGE.hidden))
    written = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert written <= memory.file_bytes(LARGE, 5, len(KINDS)) < 1.05 * written
