"""Runs to compare."""

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine, PrefillResult
from estream_lab.errors import EStreamError
from estream_lab.viz.explore.measure import measure

Tokens = NDArray[np.int32]


def test_settings_reach_their_runs_own_ones_before_common_ones(store: Path, tokens: Tokens) -> None:
    runs = measure(store, tokens, {"a": {"schedule": "on-demand"}, "b": {"banks": 1}}, group_size=5, banks=2)
    assert {label: (run.schedule, run.banks, run.group_size) for label, run in runs.items()} == {
        "a": ("on-demand", 2, 5), "b": ("early", 1, 5),
    }  # fmt: skip
    assert runs["a"].logits_sha256 == runs["b"].logits_sha256
    assert "runs" not in runs["a"].trace.provenance


def test_settings_take_turns_and_the_median_is_kept(
    store: Path, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, turns, collecting = PrefillEngine.prefill, [], []
    seconds = iter([0.5, 9.0, 0.1, 7.0, 0.3, 8.0])

    def prefill(engine: PrefillEngine, given: Tokens) -> PrefillResult:
        turns.append(engine.settings.schedule)
        collecting.append(gc.isenabled())
        return replace(real(engine, given), seconds=next(seconds))

    monkeypatch.setattr(PrefillEngine, "prefill", prefill)
    runs = measure(store, tokens, {"a": {"schedule": "early"}, "b": {"schedule": "on-demand"}}, 3)
    assert turns == ["early", "on-demand"] * 3
    assert {label: run.seconds for label, run in runs.items()} == {"a": 0.3, "b": 8.0}
    assert runs["a"].trace.provenance["runs"] == 3
    assert not any(collecting) and gc.isenabled()


def test_what_the_engine_refuses_is_refused(store: Path, tokens: Tokens) -> None:
    with pytest.raises(EStreamError, match="only the early schedule can be carried over"):
        measure(store, tokens, {"a": {"schedule": "on-demand", "carry_over": True}})
    assert gc.isenabled()
