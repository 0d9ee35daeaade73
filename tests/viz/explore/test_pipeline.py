from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.viz.explore import Choice, PipelineExplorer, explore
from tests.viz.hand_made import drawn, plain

Tokens = NDArray[np.int32]


def test_a_choice_reaches_the_run_and_its_picture(store: Path, tokens: Tokens) -> None:
    choice = Choice(schedule="on-demand", group_size=5, banks=2, queue_depth=1, read_bandwidth=50e6)
    found = explore(store, tokens, choice)
    result = found.result
    assert (result.schedule, result.group_size, result.banks, result.queue_depth) == ("on-demand", 5, 2, 1)
    assert result.read_bandwidth == 50e6
    assert "reads limited to 50 MB/s (declared)" in found.figure.layout.title.subtitle.text
    assert found.text.startswith("G=5 B=2 Q=1: ")
    assert result.logits_sha256[:12] in found.text


def test_of_several_runs_the_median_is_kept_and_said_to_be(
    store: Path, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = PrefillEngine.prefill, iter([0.5, 0.1, 0.3])
    monkeypatch.setattr(
        PrefillEngine, "prefill", lambda engine, given: replace(real(engine, given), seconds=next(times))
    )
    found = explore(store, tokens, Choice(), repeats=3)
    assert found.result.seconds == 0.3
    assert "median of 3 runs" in found.figure.layout.title.subtitle.text


def test_moving_a_slider_runs_again_and_changes_the_live_figure(store: Path, tokens: Tokens) -> None:
    explorer = PipelineExplorer(store, tokens, Choice(group_size=5, banks=2))
    first, before = explorer.last, plain(explorer.live.shown)
    assert before == drawn(explorer)
    explorer.controls["group_size"].value = 2
    assert explorer.choice == Choice(group_size=2, banks=2)
    assert explorer.last.result.group_size == 2
    assert explorer.last.result.logits_sha256 == first.result.logits_sha256
    assert plain(explorer.live.shown) == drawn(explorer)
    assert plain(explorer.live.shown) != before
    assert explorer.line.value == explorer.last.text


def test_what_the_engine_refuses_is_told_and_the_figure_stays(store: Path, tokens: Tokens) -> None:
    explorer = PipelineExplorer(store, tokens, Choice(group_size=5))
    before = plain(explorer.live.shown)
    explorer.tokens = np.array([-1], np.int32)
    explorer.controls["banks"].value = 1
    assert "outside the vocabulary" in explorer.line.value
    assert plain(explorer.live.shown) == before


def test_a_choice_beside_the_usual_steps_is_a_step_too(store: Path, tokens: Tokens) -> None:
    choice = Choice(group_size=3, banks=30, queue_depth=7, read_bandwidth=33e6)
    assert PipelineExplorer(store, tokens, choice).choice == choice
