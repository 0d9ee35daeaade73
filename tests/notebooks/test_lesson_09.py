"""Lesson 09: rivals on one contest, as it is written and as it runs."""

from pathlib import Path
from typing import Any

import pytest

from estream_lab.simulate import MODELS, load_device
from estream_lab.simulate.rivals import Contest
from estream_lab.tuning.compare import compare

from .lessons import NOTEBOOKS, check_form, figures_of

LESSON = NOTEBOOKS / "09_rivals.ipynb"
FIGURES = 7


def test_it_is_short_explained_and_clean() -> None:
    check_form(LESSON)


def test_every_figure_is_drawn(ran: tuple[dict[str, Any], Path]) -> None:
    drawn = figures_of(ran[1])
    assert len(drawn) == FIGURES
    assert all(figure["layout"]["title"]["subtitle"]["text"] for figure in drawn)


def test_its_figures_are_those_of_the_comparison(records: dict[str, Any]) -> None:
    contest = Contest.synthetic(load_device("phone"), MODELS["olmoe"], 128, 1 << 30)
    found = compare(contest, over_budget=True)
    assert records["seconds"] == {each.contestant: each.seconds for each in found.outcomes}
    assert records["over_budget"] == ["whole layers", "NPUMoE-like", "all resident"]
    assert records["routes"][0] == contest.routed == records["rows"]["EStream early"]


def test_the_roofline_sees_no_use_in_banks_that_the_simulator_rewards(records: dict[str, Any]) -> None:
    maxplus, roofline, simulated = records["curves"]
    assert len(set(roofline[1:])) == 1
    assert maxplus[1] > maxplus[2] and simulated[1] > simulated[2]
    assert all(low <= high + 1e-9 for low, high in zip(roofline, maxplus, strict=True))
    plans = {plan["planner"]: plan["settings"]["banks"] for plan in records["plans"]}
    assert plans["max-plus"] > plans["roofline"] == 2


def test_what_the_sentences_say_holds(records: dict[str, Any]) -> None:
    """Free contexts only keep up with reading on demand; reading across layers wins on few large experts; tiers from
    other text drop more."""
    seconds, large = records["seconds"], records["large"]
    assert records["setups"] == sorted(records["setups"])
    assert records["setups"][0] == pytest.approx(seconds["expert on demand"], rel=1e-5)
    assert min(large, key=large.__getitem__) in ("whole layers", "EStream early, carried over")
    assert large["EStream early, carried over"] < large["EStream early"]
    english, code = records["dropped"]["tiers from English"], records["dropped"]["tiers from code"]
    assert english == sorted(english, reverse=True) and code == sorted(code, reverse=True)
    assert all(few < many for few, many in zip(english, code, strict=True))
    assert "is the fastest" in records["explorer"]
