"""Profiles of simulated devices: what the finer model takes out of their traces, and noise."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import estream_lab
from estream_lab.simulate import MODELS, Device, Settings, Workload, load_device, simulate
from estream_lab.simulate.variants import drawn_device
from estream_lab.tuning.calibration import banks_to_calibrate
from estream_lab.tuning.configure import select
from estream_lab.tuning.grids import configurations
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.simulated import REQUEST_NOISE, SAMPLE_NOISE, simulated_profile, with_noise

SYNC = 100e3  # ns a layer and bank


def small() -> Workload:
    """A few layers of LFM2."""
    model = replace(MODELS["lfm2"], layers=3)
    return Workload.synthetic(model, 256)


def costly() -> Device:
    return load_device("phone").with_values({}, {"bank_synchronisation": SYNC})


@pytest.fixture(scope="module")
def profile() -> Profile:
    return simulated_profile(costly(), small())


def test_every_group_size_is_calibrated_once_at_every_depth_with_its_own_banks(profile: Profile) -> None:
    assert [(run.group_size, run.queue_depth, run.banks) for run in profile.runs] == [
        (4, 1, 2), (4, 2, 4), (8, 1, 2), (8, 2, 4), (16, 1, 2), (16, 2, 2),
    ]  # fmt: skip
    assert [banks_to_calibrate(depth) for depth in (1, 2, 3)] == [2, 4, 6]


def test_the_cost_of_a_bank_is_found_in_the_traces(profile: Profile) -> None:
    assert profile.bank_ns == pytest.approx(3 * SYNC)
    assert profile.grid(4).bank_ns == profile.bank_ns
    assert profile.without_banks_ns() == pytest.approx(profile.outside_ns() - 2 * 3 * SYNC)
    alike = replace(profile, runs=tuple(run for run in profile.runs if run.banks == 2))
    assert alike.bank_ns == 0 and alike.without_banks_ns() == alike.outside_ns()
    falling = replace(profile, runs=tuple(replace(run, outside_ns=10 - run.banks) for run in profile.runs))
    assert falling.bank_ns == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_finer_model_predicts_what_the_simulator_finds(seed: int) -> None:
    """Reads in a queue that is full part of the time count as full ones, and latencies aren't shared: hence the 2 %."""
    device, workload = drawn_device(load_device("phone"), seed), small()
    found = simulated_profile(device, workload)
    every = select(found, 1 << 40, "shared").candidates
    for each in configurations(workload.model.experts):
        if each.queue_depth == min(2, each.banks):
            (weighed,) = (candidate for candidate in every if candidate.group_size == each.group_size)
            simulated = simulate(device, workload, Settings(each.group_size, each.banks, each.queue_depth)).seconds
            assert weighed.seconds_by_banks[each.banks - 1] == pytest.approx(simulated, rel=0.02)


def test_noise_is_the_same_from_the_same_seed_and_as_large_as_it_says(profile: Profile) -> None:
    noisy = with_noise(profile, 5)
    assert noisy == with_noise(profile, 5) and noisy.runs != with_noise(profile, 6).runs
    assert replace(noisy, runs=profile.runs) == profile
    for run, before in zip(noisy.runs, profile.runs, strict=True):
        assert [read[:3] for read in run.loadings] == [read[:3] for read in before.loadings]
        factors = np.log([
            after / was
            for after, was in zip(
                (*run.non_expert_ns, *(each.ns for each in (*run.executions, *run.loadings))),
                (*before.non_expert_ns, *(each.ns for each in (*before.executions, *before.loadings))),
                strict=True,
            )
        ])  # fmt: skip
        assert 0.5 * SAMPLE_NOISE < factors.std() < 1.5 * SAMPLE_NOISE
        assert abs(factors.mean()) < 4 * REQUEST_NOISE + SAMPLE_NOISE


def imported(module: str) -> set[str]:
    """The modules of this package that a module of it imports, and those that these import, and so on."""
    root = Path(estream_lab.__file__).parents[1]
    found: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        path = root.joinpath(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = node.module if isinstance(node, ast.ImportFrom) and node.module else ""
            if named.startswith("estream_lab.") and named not in found:
                found.add(named)
                todo.append(named)
    return found


def test_the_finer_model_knows_neither_simulator_nor_sweep() -> None:
    found = imported("estream_lab.tuning.refined")
    assert "estream_lab.tuning.maxplus" in found
    assert [name for name in found if name.startswith("estream_lab.simulate") or "sweep" in name] == []
    assert any(name.startswith("estream_lab.simulate") for name in imported("estream_lab.tuning.simulated"))
