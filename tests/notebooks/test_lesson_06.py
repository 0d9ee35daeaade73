"""Lesson 06: the max-plus configuration, as it is written and as it runs."""

from pathlib import Path
from typing import Any

import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.simulate import load_device
from estream_lab.streaming import Store
from estream_lab.tuning.pairs import case_of
from tests.tuning.test_maxplus_laws import WORSE_BY_A_QUEUE_PLACE

from .lessons import NOTEBOOKS, SHIPPED, check_form, figures_of

LESSON = NOTEBOOKS / "06_max_plus_configuration.ipynb"
FIGURES = 8  # the explorers' live ones are left out of an executed notebook
PHONE, HERE = "phone, simulated", "here, measured"


def test_it_is_short_explained_and_clean() -> None:
    check_form(LESSON)


def test_every_figure_is_drawn(ran: tuple[dict[str, Any], Path]) -> None:
    drawn = figures_of(ran[1])
    assert len(drawn) == FIGURES
    assert all(figure["layout"]["title"]["subtitle"]["text"] for figure in drawn)


def test_the_worked_examples_have_their_right_values(records: dict[str, Any]) -> None:
    """Examples A and B as they are published with this project, and the counterexample that the laws' tests keep."""
    assert records["pipe_times"] == {
        "early, q=2 b=2": 16, "early, q=2 b=3": 13, "early, q=1 b=1": 25, "after routing, q=2 b=2": 20,
        "B, two queue places": 13, "B, three queue places": 13, "two queue places": 6, "three queue places": 7,
    }  # fmt: skip
    assert records["paths"]["early, q=2 b=2"] == ["start", "non-expert work", "NPU", "bank", "read"]
    source = LESSON.read_text(encoding="utf-8")
    assert f"reads={tuple(WORSE_BY_A_QUEUE_PLACE.reads)}, runs={tuple(WORSE_BY_A_QUEUE_PLACE.runs)}" in source


def test_the_phones_regret_is_that_of_the_pairs(records: dict[str, Any]) -> None:
    found = records["regret"]["simulated"]
    case = case_of(load_device("phone"), "olmoe")
    for model in ("literal", "shared"):
        curve = dict(map(tuple, found[model]))
        for each in case.regrets(model):
            below = max(size for size in curve if size <= each.budget_bytes)
            assert curve[below] == pytest.approx(each.regret, abs=1e-12)
    assert max(regret for _, regret in found["shared"]) <= max(regret for _, regret in found["literal"])


def test_every_run_of_the_sweep_gives_the_logits_of_resident_experts(records: dict[str, Any], store: Store) -> None:
    with PrefillEngine.open(store, resident=True) as engine:
        text = engine.tokenizer.encode((SHIPPED / "heldout" / "text.txt").read_text(encoding="utf-8"))
        assert records["logits_sha256"] == [engine.prefill(text[:128]).logits_sha256]


def test_the_regret_here_is_of_a_swept_configuration_that_fits(records: dict[str, Any], store: Store) -> None:
    """At every budget that some arena needs: what was chosen is one of those swept, against the fastest that fits."""
    swept = [(banks * size * store.stride, seconds) for _, banks, size, seconds in records["swept"]]
    arenas = sorted({arena for arena, _ in swept})
    for curve in records["regret"]["measured"].values():
        other = curve[0][0] - arenas[0]
        assert [budget - other for budget, _ in curve] == arenas
        for arena, (_, regret) in zip(arenas, curve, strict=True):
            fitting = [seconds for need, seconds in swept if need <= arena]
            assert any(1 + regret == pytest.approx(each / min(fitting), rel=1e-12) for each in fitting)


def test_choices_fit_and_no_order_is_below_the_bound(records: dict[str, Any]) -> None:
    assert set(records["picks"]) == set(records["bound"]) == {PHONE, HERE}
    assert records["picks"][PHONE] == [4, 2, 4, "service times"]
    for bound, orders in records["bound"].values():
        assert set(orders) == {"offline", "descending work", "johnson"}
        assert bound <= min(orders.values())
    assert "T_pipe = 16" in records["explorers"][0] and "G=4 B=4 Q=2" in records["explorers"][1]
