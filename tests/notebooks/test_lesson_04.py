"""Lesson 04, expert virtualization, as a reader gets it, and as a machine runs it."""

import hashlib
from pathlib import Path
from typing import Any

import nbformat
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.experts.cases import CASES, WHOLE
from estream_lab.experts.exploration import explore
from estream_lab.experts.rules import RULES
from estream_lab.notebooks import declared, run
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack
from tests.experts.test_cases import WRONG
from tests.experts.test_mistakes import SENTENCES

ROOT = Path(__file__).parents[2]
LESSON = ROOT / "notebooks" / "04_expert_virtualization.ipynb"
NOTEBOOK = nbformat.read(LESSON, as_version=4)
DATA = ROOT / "data" / "tiny_moe"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("lesson-04")
    (result,) = run([LESSON], {"fast": True}, folder).notebooks
    return result, folder / LESSON.name


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("store") / "tiny.estream"
    pack(DATA / "checkpoint", path, progress=False)
    return Store(path)


def test_it_is_short_explained_and_clean() -> None:
    kinds = [cell.cell_type for cell in NOTEBOOK.cells]
    assert len(kinds) <= 25
    assert kinds == ["markdown", "code"] * (len(kinds) // 2)  # a sentence before every cell
    assert all(not cell.outputs and cell.execution_count is None for cell in NOTEBOOK.cells if "outputs" in cell)
    assert set(NOTEBOOK.metadata) == {"kernelspec", "language_info"}


def test_its_parameters_are_typed_and_it_has_no_logic() -> None:
    found = declared(NOTEBOOK, "lesson 04")
    assert found["fast"].kind == "bool" and found["rule"].kind == "str"
    for cell in NOTEBOOK.cells:
        lines = cell.source.splitlines() if cell.cell_type == "code" else []
        assert [line for line in lines if line.startswith(("def ", "class ", "if ", "for ", "while ", " "))] == []


def test_the_real_run_is_free_of_hazards_and_right(ran: tuple[Any, Path], store: Store) -> None:
    records = ran[0].records
    assert records["hazards"] == []
    with PrefillEngine.open(store, resident=True, group_size=4) as engine:
        assert engine.tokenizer is not None
        prompt = engine.tokenizer.encode((DATA / "heldout" / "text.txt").read_text(encoding="utf-8"))[:128]
        expected = engine.prefill(prompt)
    assert records["logits_sha256"] == [hashlib.sha256(expected.output.tobytes()).hexdigest()] * 3
    routed = {layer: set((routes.expert // 4).tolist()) for layer, routes in expected.routes.items()}
    needed = sum(store.layers[layer].group_bytes(group, 4) for layer, groups in routed.items() for group in groups)
    first_group = store.layers[0].group_bytes(min(routed[0]), 4)
    streamed, first, second = records["bytes"]  # read, needed, kept
    assert streamed[1:] == first[1:] == [needed, 0]
    assert second[1:] == [needed - first_group, first_group]
    assert second[0] <= first[0] - first_group


def test_the_rules_and_what_each_prevents(ran: tuple[Any, Path]) -> None:
    records = ran[0].records
    assert set(records["troubles"]) == {rule.name for rule in RULES}
    for rule, (steps, sentence) in records["troubles"].items():
        kind, why = WRONG[rule]
        assert sentence.startswith(f"{kind}: ") and sentence.endswith(f": {why}")
        assert 2 <= steps <= 16
    assert records["hazards_without_the_rule"] == [records["troubles"]["last-invocation"][1]]
    assert CASES["last-invocation"].invocations == 2


def test_the_explorations_end_without_trouble(ran: tuple[Any, Path]) -> None:
    records = ran[0].records
    found = explore(WHOLE[0])
    assert records["explored"][0] == [found.states, found.transitions, found.ends, []]
    assert [trouble for *_, trouble in records["explored"]] == [[], [], []]
    assert ["IN_USE", "READY", ["Keep"]] in records["transitions"]
    assert ["FILLING", "AVAILABLE", ["Release"]] in records["transitions"]
    assert len(records["transitions"]) == 8


def test_wrong_policies_are_refused_and_others_are_right(ran: tuple[Any, Path]) -> None:
    records = ran[0].records
    policies = records["policies"]
    assert policies.pop("early") == policies.pop("backwards") == records["logits_sha256"][0]
    assert set(policies) == set(SENTENCES)
    assert all(SENTENCES[name] in sentence for name, sentence in policies.items())


def test_its_figures_are_small_and_load_no_script(ran: tuple[Any, Path]) -> None:
    result, path = ran
    assert result.output_bytes < 400_000
    outputs = [o for c in nbformat.read(path, as_version=4).cells for o in c.get("outputs", ())]
    assert sum("application/vnd.plotly.v1+json" in o.get("data", {}) for o in outputs) == 9
    assert [o for o in outputs if "text/html" in o.get("data", {})] == []
