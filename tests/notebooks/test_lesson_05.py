"""Lesson 05 as a reader gets it, and as a machine runs it."""

from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.experts.mistakes import MISTAKES
from estream_lab.notebooks import declared, run
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack
from estream_lab.trace.bubbles import CAUSES

ROOT = Path(__file__).parents[2]
LESSON = ROOT / "notebooks" / "05_streaming_pipeline.ipynb"
NOTEBOOK = nbformat.read(LESSON, as_version=4)
FIGURES = 9  # the explorer's live one is left out of an executed notebook
TOKENS, SHORT = 128, 16
"""What `fast` makes of the prompts: the text's first bytes, and those that follow."""


def test_it_is_short_explained_and_clean() -> None:
    kinds = [cell.cell_type for cell in NOTEBOOK.cells]
    assert len(kinds) <= 25
    assert kinds == ["markdown", "code"] * (len(kinds) // 2)  # a sentence before every cell
    assert all(not cell.outputs and cell.execution_count is None for cell in NOTEBOOK.cells if "outputs" in cell)
    assert set(NOTEBOOK.metadata) == {"kernelspec", "language_info"}
    assert declared(NOTEBOOK, "lesson 05")["fast"].kind == "bool"


def test_its_only_logic_is_a_policy_of_about_twenty_lines() -> None:
    code = {cell.id: cell.source for cell in NOTEBOOK.cells if cell.cell_type == "code"}
    policy = [line for line in code["policy"].split("\n\n\n")[0].splitlines() if line.strip()]
    assert policy[0] == "class PopularFirst(Schedule):"
    assert 10 <= len(policy) <= 20
    rest = [line for name, source in code.items() if name != "policy" for line in source.splitlines()]
    rest += code["policy"].split("\n\n\n")[1].splitlines()
    assert [line for line in rest if line.startswith(("def ", "class ", "if ", "for ", "while ", " "))] == []


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], nbformat.NotebookNode, int]:
    """Its records, the executed notebook, and the size of that."""
    folder = tmp_path_factory.mktemp("lesson-05")
    (result,) = run([LESSON], {"fast": True}, folder).notebooks
    return result.records, nbformat.read(folder / LESSON.name, as_version=4), result.output_bytes


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("store") / "tiny.estream"
    pack(ROOT / "data" / "tiny_moe" / "checkpoint", path, progress=False)
    return Store(path)


def test_every_figure_is_drawn_and_nothing_else_is_put_out(
    ran: tuple[dict[str, Any], nbformat.NotebookNode, int],
) -> None:
    _, executed, size = ran
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    assert sum("application/vnd.plotly.v1+json" in output.get("data", {}) for output in outputs) == FIGURES
    assert [
        output for output in outputs if "text/html" in output.get("data", {}) or output.output_type == "stream"
    ] == []
    assert size < 500_000


def test_bubbles_add_up_and_each_schedule_waits_for_what_it_may(
    ran: tuple[dict[str, Any], nbformat.NotebookNode, int],
) -> None:
    records, _, _ = ran
    bubbles = records["bubbles"]
    assert set(bubbles) == {"on-demand", "after-routing", "early", "early, carried over"}
    for name, units in bubbles.items():
        assert sum(units["storage"].values()) == pytest.approx(records["storage_idle"][name])
        assert {cause for causes in units.values() for cause in causes} <= set(CAUSES)
    assert bubbles["on-demand"]["storage"]["routes"] > 0
    assert bubbles["after-routing"]["storage"]["routes"] > 0
    assert "routes" not in bubbles["early"]["storage"]
    assert bubbles["on-demand"]["storage"]["schedule's choice"] > 0
    assert bubbles["early"]["storage"].get("schedule's choice", 0.0) == 0
    assert records["recurrence_agrees"] is True


def test_a_replay_from_its_own_times_is_as_long_as_the_run(
    ran: tuple[dict[str, Any], nbformat.NotebookNode, int],
) -> None:
    """The same policy decides on the same times: only which read won a race can differ."""
    records, _, _ = ran
    assert all(abs(distance) < 0.3 for distance in records["replay_distance"].values())
    kind, distance = records["explorer"]
    assert kind == "simulated from measured service times"
    assert distance > -1
    assert (
        records["simulated"]["on-demand"] > records["simulated"]["early"] >= records["simulated"]["early, carried over"]
    )


def test_your_policy_reads_what_an_independent_count_says_and_the_logits_are_those_of_resident_experts(
    ran: tuple[dict[str, Any], nbformat.NotebookNode, int], store: Store
) -> None:
    records, _, _ = ran
    with PrefillEngine.open(store, resident=True) as engine:
        text = engine.tokenizer.encode((ROOT / "data/tiny_moe/heldout/text.txt").read_text(encoding="utf-8"))
        long, short = engine.prefill(text[:TOKENS]), engine.prefill(text[TOKENS : TOKENS + SHORT])
    assert [set(found) for found in records["logits_sha256"]] == [{long.logits_sha256}, {short.logits_sha256}]
    loads = [np.bincount(routes.expert, minlength=16) for routes in long.routes.values()]
    usual = sum(load.sum() for load in loads) / sum((load > 0).sum() for load in loads)
    early, yours = 0, 0
    for load, routes in zip(loads, short.routes.values(), strict=True):
        needed = set(routes.expert.tolist())
        early += len({0, 1, 2, 3} - needed)  # four banks, four queue places: the layer's first four groups
        popular = [expert for expert in range(16) if load[expert] >= usual]
        ahead = popular[:3] + (
            [popular[3]] if popular[:4] == [0, 1, 2, 3] else []
        )  # the last bank is the first group's
        yours += len(set(ahead) - needed)
    assert early > yours
    assert records["bytes_speculative"] == {
        "after routing": 0, "early": early * store.stride, "yours": yours * store.stride,
    }  # fmt: skip


def test_wrong_policies_are_refused_and_right_ones_change_no_bit(
    ran: tuple[dict[str, Any], nbformat.NotebookNode, int],
) -> None:
    records, _, _ = ran
    outcomes = records["outcomes"]
    assert set(outcomes) == {"early", "yours", *MISTAKES}
    assert outcomes["early"] == outcomes["yours"] == records["logits_sha256"][1][0]
    assert "the last spare bank goes to the first group" in outcomes["greedy"]
    assert "starves the executor" in outcomes["asleep"]
    assert all(" asked to " in outcomes[name] or "starves" in outcomes[name] for name in MISTAKES)
