"""Values that fp16 can't hold are counted where they arise."""

import numpy as np
import pytest

from estream_lab.evaluate import saturation
from estream_lab.evaluate.saturation import KINDS, Saturation
from estream_lab.experts import Arena, Binding, RecordClass
from estream_lab.experts.shape import ExpertShape
from estream_lab.kernels.quant import dequantise_q4_0, quantise_q4_0

MINUS_8 = np.full((32, 32), 0, np.float32) - 8 * np.eye(32, dtype=np.float32)  # exact in Q4_0
RECORD = RecordClass.of(ExpertShape(32, 32, ("f32",) * 3))
BINDING = Binding(
    np.array([0, 0, 2], np.int64),
    np.array([1, 0], np.int32),
    np.arange(2, dtype=np.int32),
    np.ones(2, np.float32),
    np.arange(2, dtype=np.int32),
)


def counted(x: np.ndarray, monkeypatch: pytest.MonkeyPatch, begun: bool = True) -> Saturation:
    """Of rows x (2, 32) through an expert whose three projections multiply by -8; the first slot has no records."""
    monkeypatch.setattr(saturation, "arena_weights", lambda *_: (MINUS_8, MINUS_8, MINUS_8))
    found = Saturation()
    if begun:
        found.begin()
    found.see(x, BINDING, Arena(1, 2, RECORD.stride), RECORD)
    return found


def test_each_kind_is_counted_from_where_rounding_leaves_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((2, 32), np.float32)
    x[0, :3] = -8190, -8189.98, -10  # gate and up: 65520, just less, and 80, whose SwiGLU result is 6400
    x[1, :2] = 65520, 65519.98  # twice beyond in gate and in up, and silu(-524160) is 0
    found = counted(x, monkeypatch)
    assert found.values == {"activations": 64, "gate and up": 128, "SwiGLU results": 64, "outputs": 64}
    assert found.beyond == {"activations": 1, "gate and up": 6, "SwiGLU results": 2, "outputs": 2}


def test_an_output_may_be_beyond_where_nothing_before_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((2, 32), np.float32)
    x[0, 0] = -12  # 96, 9216, 73728
    assert list(counted(x, monkeypatch).beyond.values()) == [0, 0, 0, 1]


def test_what_warms_a_kernel_up_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted(np.full((2, 32), 1e5, np.float32), monkeypatch, begun=False)
    assert found.values == found.beyond == dict.fromkeys(KINDS, 0)


def plain_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b.T, k ascending, each product rounded, then each sum."""
    out = np.zeros((len(a), len(b)))
    for k in range(a.shape[1]):
        out = out + a[:, k : k + 1] * b[:, k]
    return out


def test_what_is_counted_is_computed_as_with_all_steps_off_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A BLAS, which may fuse products into sums or reorder them, and another formula of silu would give other bits."""
    rng, counted_values = np.random.default_rng(6), []
    expert = [quantise_q4_0(rng.standard_normal((32, 32)).astype(np.float32)) for _ in range(3)]
    monkeypatch.setattr(saturation, "arena_weights", lambda *_: expert)
    monkeypatch.setattr(Saturation, "_count", lambda _, kind, values: counted_values.append((kind, values)))
    x = rng.standard_normal((2, 32)).astype(np.float32)
    found = Saturation()
    found.begin()
    found.see(x, BINDING, Arena(1, 2, RECORD.stride), RECORD)
    gate, up, down = (dequantise_q4_0(*each).astype(np.float64) for each in expert)
    rows = x[[1, 0]].astype(np.float64)
    g, u = plain_sums(rows, gate), plain_sums(rows, up)
    small = np.exp(-np.abs(g))
    h = np.where(g < 0, g * small, g) / (1 + small) * u
    expected = [rows, g, u, h, plain_sums(h, down)]
    assert [kind for kind, _ in counted_values] == [KINDS[0], KINDS[1], *KINDS[1:]]
    for (kind, values), same in zip(counted_values, expected, strict=True):
        assert values.tobytes() == same.tobytes(), kind
