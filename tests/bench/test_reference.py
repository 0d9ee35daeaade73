"""The float64 layer, the errors against it, and our own rows held to it."""

from pathlib import Path

import numpy as np
import pytest

from estream_lab.bench.inputs import Inputs
from estream_lab.bench.ours import LANES, OurRow
from estream_lab.bench.reference import Error, reference, relative_error, sampled
from estream_lab.bench.rows import Job
from estream_lab.bench.shapes import LayerShape
from estream_lab.bench.weights import Weights
from estream_lab.kernels.host import set_threads, thread_limit, threads

SHAPE = LayerShape("tiny", 64, 96, 5, 3, 3.0)


@pytest.fixture(name="weights")
def _weights(tmp_path: Path) -> Weights:
    return Weights.write(SHAPE, tmp_path, seed=1)


def test_the_reference_is_the_definition(weights: Weights, tmp_path: Path) -> None:
    inputs = Inputs.draw(SHAPE, 7, "gaussian", 2, tmp_path / "inputs")
    expected = np.zeros((7, 64))
    for t in range(7):
        x = inputs.x[t].astype(np.float64)
        for e, a in zip(inputs.expert[t], inputs.weight[t], strict=True):
            gate, up, down = (weights.dequantised(int(e) % 2, p).astype(np.float64) for p in range(3))
            g = gate @ x
            expected[t] += float(a) * (down @ (g / (1 + np.exp(-g)) * (up @ x)))
    found = reference(inputs, weights.dequantised, weights.distinct)
    assert found.dtype == np.float64 and np.allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_sample_is_spread_over_all_tokens(weights: Weights, tmp_path: Path) -> None:
    assert sampled(5).tolist() == [0, 1, 2, 3, 4]
    rows = sampled(1024)
    assert len(rows) == 24 and rows[0] == 0 and rows[-1] == 1023 and np.diff(rows).min() >= 44
    inputs = Inputs.draw(SHAPE, 100, "gaussian", 2, tmp_path / "inputs")
    whole = np.concatenate(
        [
            reference(Inputs(inputs.x[i : i + 1], inputs.expert[i : i + 1], inputs.weight[i : i + 1], inputs.path),
                      weights.dequantised, 2)
            for i in sampled(100)
        ]
    )  # fmt: skip
    assert np.allclose(reference(inputs, weights.dequantised, 2), whole, rtol=1e-12, atol=1e-14)


def test_the_error_is_relative_and_infinite_for_what_is_not_finite() -> None:
    exact = np.arange(1.0, 7).reshape(3, 2)
    y = exact.astype(np.float32)
    assert relative_error(y, exact) == Error(0, 0)
    y[1, 0] += 3
    found = relative_error(y, exact)
    assert found.whole == pytest.approx(3 / np.linalg.norm(exact))
    assert found.token == pytest.approx(3 / 5)  # of (3, 4)
    y[1, 0] = np.nan
    assert relative_error(y, exact) == Error(float("inf"), float("inf"))


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_our_rows_compute_the_layer_again_and_again(lane: object, weights: Weights, tmp_path: Path) -> None:
    row = OurRow(lane)  # type: ignore[arg-type]
    before = threads()
    try:
        prepared = row.prepare(Job(weights, 33, min(2, thread_limit()), tmp_path))
        for seed in (1, 2):  # a second call starts from nothing
            inputs = Inputs.draw(SHAPE, 33, "lognormal", seed, tmp_path / "inputs")
            exact = reference(inputs, weights.dequantised, weights.distinct)
            bound = {"fp32": 1e-5, "bf16": 0.004, "int8": 0.03}[prepared.arithmetic]
            error = relative_error(row.output(inputs), exact)
            assert error.whole < bound and error.token < 1.5 * bound
            assert row.run(inputs) > 0
    finally:
        set_threads(before)
        row.release()
    assert not prepared.own_weights
