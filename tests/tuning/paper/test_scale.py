"""Sizes of the five models, M_other from the published 16.0 %, and floors under the published times."""

import pytest

from estream_lab.simulate import MODELS, load_device
from estream_lab.tuning.paper import lengths, scale
from estream_lab.tuning.paper.lengths import Run, Size
from estream_lab.tuning.paper.scale import DENSE, EXPERTS, FLOOR, OTHER, PEAK, RATIO, RECORD

PHONE = load_device("phone")
WANTED = {  # W_e in bytes, all experts in GiB: from the published configurations
    "olmoe": (3_538_944, 3.375), "lfm2": (6_193_152, 4.061), "deepseek": (4_866_048, 7.541),
    "qwen3": (2_654_208, 15.188), "mixtral": (99_090_432, 23.625),
}  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return lengths.runs(PHONE, Size(("mixtral",), (128, 1024, 4096)))


def test_sizes_are_those_of_the_published_configurations() -> None:
    sizes = scale.size_marks(tuple(MODELS), PHONE)
    assert {(mark.quantity, mark.kind) for mark in sizes} == {
        (RECORD, "computed"), (EXPERTS, "computed"), (DENSE, "simulated"),
    }  # fmt: skip
    found = {(mark.of, mark.quantity): mark.value for mark in sizes}
    for name, (record, experts) in WANTED.items():
        title = MODELS[name].title
        assert found[title, RECORD] == record
        assert found[title, EXPERTS] / 2**30 == pytest.approx(experts, abs=6e-4)
        assert found[title, DENSE] == round(MODELS[name].non_expert_weights * PHONE["dense_weight"])


def test_other_memory_follows_from_sixteen_per_cent() -> None:
    """885 MB at three banks, of which 85 MB are the arena."""
    bank = 8 * 3_538_944
    other = scale.implied_other_bytes()
    assert (other + 8 * bank) / (other + 3 * bank) == pytest.approx(1.16)
    assert other + 3 * bank == pytest.approx(885e6, rel=1e-3)


def test_the_profiles_parts_sum_up_to_it() -> None:
    implied, profile, *parts = scale.other_marks(PHONE)
    assert (implied.quantity, implied.kind, profile.kind) == (OTHER, "computed", "fitted")
    assert implied.note == "from 16 % more memory"
    assert [part.kind for part in parts] == ["fitted", "computed", "fitted"]
    assert sum(part.value for part in parts) == profile.value == pytest.approx(implied.value, rel=1e-6)


def test_peaks_are_arena_and_the_rest_beside_the_published_range(runs: list[Run]) -> None:
    found = scale.memory_marks(runs)
    ours = [mark.value for mark in found if mark.kind == "simulated"]
    assert [arena + other for arena, other in zip(ours[::3], ours[1::3], strict=True)] == ours[2::3]
    theirs = [mark for mark in found if mark.kind == "published, in notes"]
    assert [(mark.of, mark.quantity, mark.value / 2**30) for mark in theirs] == [
        ("Mixtral-8x7B, 1024 tokens", PEAK, 2.77), ("Mixtral-8x7B, 4096 tokens", PEAK, 4.11),
    ]  # fmt: skip


def test_a_floor_is_the_bytes_at_the_best_bandwidth_and_no_time_is_below(runs: list[Run]) -> None:
    found = {(mark.of, mark.quantity, mark.kind): mark.value for mark in scale.read_marks(runs)}
    of = "Mixtral-8x7B, 1024 tokens"
    floor = found[of, FLOOR, "simulated"]
    assert floor == scale.expert_bytes(MODELS["mixtral"]) / PHONE.read_bandwidths[-1].value
    assert found[of, RATIO, "simulated"] == pytest.approx(1024 / 144.5 / floor)
    assert all(run.simulation.seconds > floor for run in runs)
    published = [value for (_, _, kind), value in found.items() if kind == "published, in notes"]
    assert len(published) == 2 and min(published) > floor


def test_all_marks_are_there_once(runs: list[Run]) -> None:
    found = scale.marks_of(runs, PHONE, Size(("mixtral",), (1024,)))
    assert len({mark.place for mark in found}) == len(found)
