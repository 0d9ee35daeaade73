"""Lesson 03 as a reader gets it, and its figures computed once more by other means."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine, PrefillResult
from estream_lab.kernels.vtcm import plan_tiles
from estream_lab.streaming import Store

from .lessons import NOTEBOOKS, SHIPPED, check_form, figures_of

LESSON = NOTEBOOKS / "03_tiled_swiglu.ipynb"
TOKENS = 16  # of the exact run; fast = true
H, F, M, NF, ND = 2048, 1024, 256, 128, 256
FIGURES = 10
RUNS = ("small tiles", "large tiles", "four banks")


def titles(executed: Path) -> list[str]:
    return [figure["layout"]["title"]["text"] for figure in figures_of(executed)]


def test_it_has_the_form_of_a_lesson(ran: tuple[dict[str, Any], Path]) -> None:
    check_form(LESSON)
    assert len(titles(ran[1])) == FIGURES


def test_elements_lie_where_the_formulas_say(ran: tuple[dict[str, Any], Path]) -> None:
    records, notebook = ran
    assert records["element"] == [5 * 32 + 12] * 2
    for name in ("nibble", "scale"):
        unpacked, read = records[name]
        assert unpacked == read
    assert "Element (5, 12) of a tile is at byte 306: 2 · 128 + 12 · 4 + 1 · 2" in titles(notebook)
    start = (45 // 32 * 6 + 101 // 32) * 576  # six blocks of 32 inputs a strip
    byte, scale = start + 4 * 13 + 1, start + 512 + 2 * 13
    assert f"Weight (45, 101) is the high nibble of byte {byte:,}, its scale at byte {scale:,}" in titles(notebook)


def test_regions_follow_each_other(records: dict[str, Any]) -> None:
    panel = max(2 * NF * H, ND * F)  # weights of a gate and up panel, of a down panel
    sizes = {"activations": 2 * M * H, "swiglu": 2 * M * F, "decoded0": 2 * panel, "decoded1": 2 * panel}
    sizes |= {f"output{i}": 2 * M * max(NF, ND) for i in range(4)} | {"silu": 131072, "scale": 256}
    sizes |= {f"compressed{i}": panel * 9 // 16 for i in range(2)}
    offsets = np.cumsum([0, *sizes.values()])  # these sizes need no gaps
    assert records["regions"] == {
        name: [int(at), size] for (name, size), at in zip(sizes.items(), offsets, strict=False)
    }


def test_steps_and_waits_are_as_many_as_panels_make(records: dict[str, Any]) -> None:
    panels = F // NF + H // ND
    assert records["steps"] == [4 * panels + 1, 4 * panels - 2]  # the first two fetches and the gather wait for nothing


def test_the_checker_is_silent_until_a_wait_is_taken_away(records: dict[str, Any]) -> None:
    assert records["faults"] == []
    assert any("decoded0: step 3 (decode gate_up 0" in fault for fault in records["faults_without_a_wait"])
    assert all("step 6 (matmul gate_up 0" in fault for fault in records["faults_without_a_wait"])


def test_too_little_memory_is_refused_with_the_region(records: dict[str, Any]) -> None:
    left = (2 << 20) - 2 * M * H - 2 * M * F
    expected = f"the region decoded0 takes {4 * NF * H:,} bytes, {left:,} of {2 << 20:,} bytes of VTCM are left"
    assert expected in records["refusal"]


@pytest.fixture(scope="module")
def resident(store: Store) -> PrefillResult:
    """The lesson's prompt with all experts in memory: no banks at all."""
    prompt = np.frombuffer((SHIPPED / "heldout" / "text.txt").read_bytes()[:TOKENS], np.uint8)
    with PrefillEngine.open(store, executor="exact", resident=True) as engine:
        return engine.prefill(prompt)


def test_the_run_recorded_a_slot_for_each_expert_that_was_asked(
    records: dict[str, Any], resident: PrefillResult
) -> None:
    slots = sum(len(set(layer.expert.tolist())) for layer in resident.routes.values())
    small, large = (plan_tiles(192, 128, TOKENS, vtcm) for vtcm in (300 << 10, 8 << 20))
    assert small.rows == large.rows == 32  # one row tile each
    steps = [slots * (4 * (plan.ffn_panels + plan.hidden_panels) + 1) for plan in (small, large)]
    assert steps[0] > steps[1]
    assert records["recorded_steps"] == dict(zip(RUNS, (*steps, steps[0]), strict=True))


def test_tiles_and_banks_are_varied_and_change_no_bit(records: dict[str, Any], resident: PrefillResult) -> None:
    assert records["banks"] == dict(zip(RUNS, (2, 2, 4), strict=True))
    assert records["logits"] == dict.fromkeys(RUNS, resident.logits_sha256[:8])


def test_the_explorer_starts_on_a_plan_that_fits(records: dict[str, Any]) -> None:
    assert records["chosen"]["capacity"] == 8 << 20
    assert records["chosen"]["shape"] == "OLMoE: H 2048, F 1024"


def test_four_bits_change_more_than_all_that_the_device_does(records: dict[str, Any]) -> None:
    for rows in records["rows"].values():
        change = {name: abs(delta) for name, delta in rows}
        assert change["Q4_0 weights"] > 10 * change["+ fp32 scatter: the device"] > 0
        assert change["scatter reversed"] < 1e-6
    assert list(records["rows"]) == ["as trained", "renormalised"]
