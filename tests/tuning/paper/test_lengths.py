"""Times over prompt lengths: the fastest configuration, published values at their lengths, no refitting."""

import pytest

from estream_lab.simulate import load_device
from estream_lab.simulate.heldout import HELDOUT
from estream_lab.tuning.paper import lengths
from estream_lab.tuning.paper.lengths import ERROR, FAST, FULL, TIME, Run, Size

PHONE = load_device("phone")


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return lengths.runs(PHONE, Size(("olmoe", "mixtral"), (512, 1024)))


def test_every_model_runs_at_every_length(runs: list[Run]) -> None:
    assert [(run.model, run.tokens) for run in runs] == [
        ("olmoe", 512), ("olmoe", 1024), ("mixtral", 512), ("mixtral", 1024),
    ]  # fmt: skip
    assert all(run.simulation.workload.tokens == run.tokens for run in runs)


def test_a_published_throughput_becomes_a_time_at_its_length_alone(runs: list[Run]) -> None:
    assert [[mark.value for mark in lengths.published_seconds(run)] for run in runs] == [[], [1.03], [], [1024 / 144.5]]
    (noted,) = lengths.published_seconds(runs[3])
    assert (noted.kind, noted.unit, noted.of) == ("published, in notes", "s", "Mixtral-8x7B, 1024 tokens")


def test_errors_are_what_the_held_out_figures_have(runs: list[Run]) -> None:
    found = {mark.of: mark for mark in lengths.marks(runs) if mark.quantity == ERROR}
    assert set(found) == {"OLMoE-1B-7B, 1024 tokens", "Mixtral-8x7B, 1024 tokens"}
    held = next(each for each in HELDOUT if each.id == "mixtral_1k")
    tokens_per_second, _ = held.simulated(PHONE)
    error = found["Mixtral-8x7B, 1024 tokens"]
    assert error.value == pytest.approx(100 * (held.published.value / tokens_per_second - 1))


def test_what_the_profile_was_fitted_to_is_no_evidence_with_any_group_size(runs: list[Run]) -> None:
    """OLMoE at 1,024 tokens: simulated at another G than the published time, to which the phone was fitted."""
    assert runs[1].simulation.settings.group_size == 4 and PHONE.fitted_to is not None
    ours = [mark for mark in lengths.marks(runs) if not mark.kind.startswith("published")]
    fitted = [(mark.of, mark.quantity, mark.note) for mark in ours if mark.kind == "fitted"]
    of = "OLMoE-1B-7B, 1024 tokens"
    assert fitted == [(of, TIME, runs[1].configuration), (of, ERROR, "published at G=8 Q=2 B=3")]
    assert {mark.kind for mark in ours if mark.of != of} == {"simulated"}


def test_times_are_marked_with_their_configuration(runs: list[Run]) -> None:
    times = [mark for mark in lengths.marks(runs) if mark.quantity == TIME and mark.note.startswith("G=")]
    assert [mark.value for mark in times] == [run.simulation.seconds for run in runs]
    settings = runs[0].simulation.settings
    assert times[0].note == f"G={settings.group_size} Q={settings.queue_depth} B={settings.banks}"


def test_every_held_out_figure_is_of_the_long_form_and_the_short_is_part_of_it() -> None:
    assert {(each.model, each.tokens) for each in HELDOUT} <= {(m, t) for m in FULL.models for t in FULL.tokens}
    assert set(FAST.models) <= set(FULL.models) and set(FAST.tokens) <= set(FULL.tokens)
    assert (FULL.tokens[0], FULL.tokens[-1]) == (256, 4096)
