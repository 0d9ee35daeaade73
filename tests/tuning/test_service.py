"""The model of execution times: what is put in comes out, no part is negative, errors are those of unseen layers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.tuning.service import BLOCKS, ServiceModel, fit


def drawn(model: ServiceModel, seed: int, layers: int = 4, groups: int = 12) -> list[tuple[int, np.ndarray, float]]:
    generator = np.random.default_rng(seed)
    routes = [generator.integers(0, 70, int(generator.integers(1, 9))) for _ in range(layers * groups)]
    return [
        (i % layers, counts, float(model.predict(counts[None])[0])) for i, counts in enumerate(routes) if counts.any()
    ]


@given(
    block=st.sampled_from(BLOCKS), fixed=st.floats(1e3, 1e6), expert=st.floats(1e3, 1e6), seed=st.integers(0, 99),
    each=st.floats(1e3, 1e5),
)  # fmt: skip
def test_what_made_the_times_is_found_again(block: int, fixed: float, expert: float, seed: int, each: float) -> None:
    model = ServiceModel(block, fixed, expert, each, 0, 0, 0)
    found = fit(drawn(model, seed))
    assert found.block == block
    assert [found.fixed_ns, found.expert_ns, found.block_ns] == pytest.approx([fixed, expert, each], rel=1e-4)
    assert found.worst_error < 1e-6 and found.samples == len(drawn(model, seed))


def test_a_group_without_routes_takes_no_time_and_experts_without_routes_no_part() -> None:
    model = ServiceModel(8, 100, 10, 1, 0, 0, 0)
    routes = np.array([[0, 0, 0], [1, 0, 0], [8, 9, 0], [16, 16, 16]])
    assert model.predict(routes).tolist() == [0, 111, 123, 136]


@given(seed=st.integers(0, 99), noise=st.floats(0.1, 2))
def test_no_part_is_negative_however_noisy_the_times_are(seed: int, noise: float) -> None:
    generator = np.random.default_rng(seed)
    samples = [
        (layer, routes, time * float(np.exp(noise * generator.standard_normal())))
        for layer, routes, time in drawn(ServiceModel(1, 0, 50, 1, 0, 0, 0), seed)
    ]
    found = fit(samples)
    assert min(found.fixed_ns, found.expert_ns, found.block_ns) >= 0
    assert 0 < found.median_error <= found.worst_error


def test_errors_are_those_of_layers_that_the_fit_has_not_seen() -> None:
    routes = np.array([4])
    found = fit([(0, routes, 100.0), (0, routes, 100.0), (1, routes, 200.0)])
    assert sorted([found.median_error, found.worst_error]) == pytest.approx([1.0, 1.0])  # 200 for 100, and 100 for 200
    assert fit([(0, routes, 100.0)]).worst_error == pytest.approx(0)


def test_nothing_to_fit_is_told() -> None:
    with pytest.raises(EStreamError, match="no group was executed"):
        fit([])
