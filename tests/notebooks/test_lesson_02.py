"""Lesson 02 as a reader gets it, and its figures computed once more by other means."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.routing import Routes
from estream_lab.streaming import Store

from .lessons import NOTEBOOKS, SHIPPED, check_form, figures_of

LESSON = NOTEBOOKS / "02_slot_compaction.ipynb"
TOKENS, GROUP, CAPACITY = 24, 4, 10  # fast = true
BANKS = {0: range(0, 4), 1: range(8, 12)}  # groups 0 and 2


@pytest.fixture(scope="module")
def real(store: Store) -> Routes:
    """The first layer's routes as the engine takes them."""
    prompt = np.frombuffer((SHIPPED / "heldout" / "text.txt").read_bytes()[:TOKENS], np.uint8)
    with PrefillEngine.open(store) as engine:
        return engine.prefill(prompt).routes[0]


def in_bank(routes: Routes, bank: int) -> int:
    return sum(count for expert, count in Counter(routes.expert.tolist()).items() if expert in BANKS[bank])


def test_it_has_the_form_of_a_lesson(ran: tuple[dict[str, Any], Path]) -> None:
    check_form(LESSON)
    assert len(figures_of(ran[1])) == 5


def test_the_worked_example_has_the_published_values(records: dict[str, Any]) -> None:
    assert records["placement"] == [0, 1, -1, -1, 2, 3]
    assert records["psi"] == [2, 1, 1, 3, 2, 0]
    assert records["c"] == [1, 2, 2, 1]
    assert records["o"] == [[0, 1, 3, 5, 6]] * 2  # by hand, and of the binding
    assert records["pi"] == [[5, 1, 2, 0, 4, 3]] * 2
    assert records["y"] == [2.8, 4.4, 6.0]


def test_an_expert_that_comes_twice_counts_twice(records: dict[str, Any]) -> None:
    assert records["y_of_doubled"] == [1 * 4 * 0.5 + 1 * 4 * 0.25, 0, 3 * 4]


def test_the_plain_operator_agrees_with_the_graph(records: dict[str, Any]) -> None:
    assert 0 < records["largest_difference"] < 1e-5


def test_each_bank_binds_the_routes_of_its_experts_and_more_than_c_are_cut(
    records: dict[str, Any], real: Routes
) -> None:
    counts = [in_bank(real, bank) for bank in BANKS]
    assert records["routes_of_banks"] == counts
    assert records["invocations"] == {"C = R": [1, 1], "C = 10": [-(-count // CAPACITY) for count in counts]}
    assert max(counts) > CAPACITY  # the lesson shows a cut
    assert records["split_changes_no_bit"] is True


def test_banks_exchanged_move_every_weight_and_change_no_bit(records: dict[str, Any], store: Store) -> None:
    assert records["gate_of_expert_0"] == [0, GROUP * store.stride]
    assert records["swap_changes_no_bit"] is True


def test_the_explorer_starts_on_the_first_bound_route(records: dict[str, Any], real: Routes) -> None:
    first = min((int(expert), route) for route, expert in enumerate(real.expert) if int(expert) in BANKS[0])[1]
    assert records["chosen"] == {"tokens": 16, "bank": 0, "capacity": 8, "route": first}
