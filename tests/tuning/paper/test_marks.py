"""Marks say how their values came about; baselines hold what is the same everywhere to the last bit."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from estream_lab.errors import EStreamError
from estream_lab.simulate import MODELS, Workload, load_device
from estream_lab.simulate.published import published
from estream_lab.tuning.paper import Mark, by_quantity, check, published_mark
from estream_lab.tuning.paper.baseline import figures
from estream_lab.tuning.paper.marks import simulated_kind

OURS = Mark("a", "time", 1.5, "s", "simulated")
HERE = Mark("a", "share", 10.0, "%", "measured")


def test_a_value_must_say_how_it_came_about() -> None:
    with pytest.raises(EStreamError, match="kind 'guessed' says nothing"):
        replace(OURS, kind="guessed")


def test_a_published_value_says_whether_it_was_checked_against_the_paper() -> None:
    printed, noted = (published_mark(id, "a", "b") for id in ("bubble_early", "ttft_4k_olmoe"))
    assert (printed.kind, printed.value, printed.unit) == ("published", published()["bubble_early"].value, "%")
    assert (noted.kind, noted.unit) == ("published, in notes", "s")
    assert printed.note == "bubble rate: OLMoE, 1024 tokens, started during non-FFN work"


def test_only_what_a_profile_was_fitted_to_is_called_fitted() -> None:
    phone, olmoe = load_device("phone"), MODELS["olmoe"]
    asked = [(olmoe, 1024, 8), (olmoe, 1024, 4), (olmoe, 2048, 8), (MODELS["lfm2"], 1024, 8)]
    kinds = [simulated_kind(phone, Workload.synthetic(model, tokens), size) for model, tokens, size in asked]
    assert kinds == ["fitted", "simulated", "simulated", "simulated"]


def test_marks_are_told_apart_by_kind_and_note() -> None:
    other = replace(OURS, note="B=3")
    assert set(figures([OURS, other, HERE], measured=True)) == {"simulated/a/time/", "simulated/a/time/B=3", HERE.place}
    assert figures([OURS, HERE], measured=False) == {"simulated/a/time/": 1.5}
    with pytest.raises(EStreamError, match="two marks are both simulated/a/time/"):
        figures([OURS, OURS], measured=True)
    assert by_quantity([OURS, HERE, other]) == {"time": [OURS, other], "share": [HERE]}


def baseline(folder: Path, *marks: Mark) -> Path:
    path = folder / "baseline.json"
    path.write_text(json.dumps({"fast": figures(marks, measured=True)}))
    return path


def test_a_simulated_value_is_held_to_the_last_bit_and_a_measured_one_as_loosely_as_asked(tmp_path: Path) -> None:
    path = baseline(tmp_path, OURS, HERE)
    assert check([OURS, replace(HERE, value=11.0)], path, "fast", measured=1.0) == 2
    with pytest.raises(EStreamError, match=r"^1 of 2 figures left .*measured/a/share/ is 11\.5, its baseline 10\."):
        check([OURS, replace(HERE, value=11.5)], path, "fast", measured=1.0)
    moved = replace(OURS, value=math.nextafter(1.5, 2))
    with pytest.raises(EStreamError, match="simulated/a/time/ is 1.5, its baseline 1.5"):
        check([moved, HERE], path, "fast", measured=1.0)
    with pytest.raises(EStreamError, match="measured/a/share/ is gone"):
        check([OURS], path, "fast", measured=1.0)


def test_measured_values_are_held_to_nothing_by_default(tmp_path: Path) -> None:
    path = baseline(tmp_path, OURS)
    assert check([OURS, HERE], path, "fast") == 1
    with pytest.raises(EStreamError, match="simulated/b/time/ is new"):
        check([OURS, replace(OURS, of="b")], path, "fast")
