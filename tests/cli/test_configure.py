"""estream configure: the choice, its reasons, the file in the store, and who runs by it."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.cli import configure, main
from estream_lab.streaming import Store
from estream_lab.tuning.calibrate import calibrate
from estream_lab.tuning.configure import Selection, select
from estream_lab.tuning.pipeline_file import pipeline_path, read_pipeline
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.profile_file import load_profile, save_profile
from tests.stores import synthetic_store

TOKENS = "1 2 3 4 5 6 7 8"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """Of the store that every test makes anew: it has the same manifest everywhere."""
    store = Store(synthetic_store(tmp_path_factory.mktemp("configure")))
    return calibrate(store, np.arange(20, dtype=np.int32), prompt="numbers", rounds=2)


@pytest.fixture
def store(tmp_path: Path, measured: Profile, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.chdir(tmp_path)
    found = Store(synthetic_store(tmp_path))
    save_profile(measured, Path("p.json"))
    return found


def command(store: Store, measured: Profile, banks: int = 2, *more: str) -> list[str]:
    """With room for so many banks of four experts."""
    budget = measured.other_bytes + banks * 4 * store.stride
    return ["configure", str(store.path), "--memory-budget", str(budget), *more]


def test_the_choice_is_told_and_kept_in_the_store(
    store: Store, measured: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(store, measured, 2, "--profile", "p.json", "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["budget_bytes"] == measured.other_bytes + 8 * store.stride
    assert found["arena_bytes"] == found["banks"] * found["group_size"] * store.stride <= 8 * store.stride
    assert [each["bank_limit"] for each in found["candidates"]] == [2, 1]
    shop = found["flow_shop"]
    outside = measured.outside_ns() / 1e9
    assert shop["by_order_ns"]["offline"] / 1e9 + outside == pytest.approx(found["predicted_seconds"])
    assert 0 < shop["work_ns"] <= shop["bound_ns"] <= min(shop["by_order_ns"].values())
    kept = read_pipeline(store)
    assert kept is not None and str(kept.path) == found["pipeline"] and kept.profile() == measured
    assert (kept.group_size, kept.queue_depth, kept.banks) == (
        found["group_size"],
        found["queue_depth"],
        found["banks"],
    )


def test_people_are_told_why(store: Store, measured: Profile, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(store, measured, 1, "--profile", "p.json")) == 0
    out = capsys.readouterr().out
    assert "p.json: 20 tokens (numbers), measured on" in out and "s predicted, arena" in out and "selected in" in out
    assert f"no bank fits: the least that works is {measured.other_bytes + 8 * store.stride} bytes" in out
    assert "in any order with any banks" in out and "descending work" in out
    assert "B_max 1, best B=1 Q=1" in out and "no other group size fits" in out
    assert f"written         {pipeline_path(store)}" in out
    assert main(command(store, measured, 9, "--profile", "p.json")) == 0
    out = capsys.readouterr().out
    assert "ms before G=" in out and "the noise of" in out and "B_max 3" in out


def test_the_next_budget_needs_no_profile(
    store: Store, measured: Profile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(store, measured, 1, "--profile", "p.json")) == 0
    capsys.readouterr()
    monkeypatch.setattr(configure, "calibrate", lambda *_, **__: pytest.fail("it was measured again"))
    assert main(command(store, measured, 3, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["profile"], found["model"]) == (str(pipeline_path(store)), "literal")


def test_the_model_that_is_asked_for_chooses(
    store: Store, measured: Profile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def watch(profile: Profile, budget: int, model: str) -> Selection:
        asked.append(model)
        return select(profile, budget, model)

    monkeypatch.setattr(configure, "select", watch)
    assert main(command(store, measured, 3, "--profile", "p.json", "--json", "--model", "shared")) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "shared" and asked == ["shared"]


def test_without_any_profile_one_is_measured(
    store: Store, measured: Profile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []

    def fake(store: Store, tokens: np.ndarray, **settings: Any) -> Profile:
        asked.append(settings | {"tokens": len(tokens)})
        return measured

    monkeypatch.setattr(configure, "calibrate", fake)
    assert main(command(store, measured, 3)) == 0
    assert asked == [{"prompt": "made-up tokens", "progress": True, "tokens": 128}]
    assert "profile         measured now: " in capsys.readouterr().out


def test_prefill_and_routes_run_as_configured_unless_told_otherwise(
    store: Store, measured: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(store, measured, 1, "--profile", "p.json", "--json")) == 0  # G=4 B=1 Q=1: not the defaults
    capsys.readouterr()

    def run(*more: str) -> dict[str, Any]:
        assert main(["prefill", str(store.path), "--tokens", TOKENS, "--json", *more]) == 0
        return dict(json.loads(capsys.readouterr().out))

    found = run()
    assert (found["group_size"], found["banks"], found["queue_depth"]) == (4, 1, 1)
    assert found["pipeline"] == str(pipeline_path(store))
    for more in (
        ["--banks", "2"], ["--group-size", "5"], ["--queue-depth", "2"], ["--arena", "1MiB"], ["--resident"],
        ["--memory-budget", "4GiB"], ["--schedule", "on-demand"], ["--carry-over"], ["--keep-banks", "1"],
        ["--executor", "exact"],
    ):  # fmt: skip
        found = run(*more)
        assert found["pipeline"] is None and (found["group_size"], found["banks"]) != (4, 1), more
    assert main(["prefill", str(store.path), "--tokens", TOKENS]) == 0
    out = capsys.readouterr().out
    assert "G=4 B=1 Q=1" in out and f"configured      for a budget of {measured.other_bytes + 4 * store.stride}" in out


def test_a_foreign_file_stops_before_anything_is_measured(
    store: Store, measured: Profile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(configure, "calibrate", lambda *_, **__: pytest.fail("it was measured"))
    pipeline_path(store).parent.mkdir()
    pipeline_path(store).write_text("my notes")
    for arguments in (command(store, measured), ["prefill", str(store.path), "--tokens", TOKENS]):
        assert main(arguments) == 1
        err = capsys.readouterr().err
        assert f"{pipeline_path(store)} is no configuration of EStream Lab: remove it" in err
        assert len(err.strip().splitlines()) == 1
    assert pipeline_path(store).read_text() == "my notes"
    assert main(["prefill", str(store.path), "--tokens", TOKENS, "--banks", "2"]) == 0


def test_what_cannot_be_configured_is_one_sentence(
    store: Store, measured: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    least = measured.other_bytes + 4 * store.stride
    assert main([*command(store, measured)[:3], str(least - 1), "--profile", "p.json", "--json"]) == 1
    assert f"the least that works is {least} bytes" in json.loads(capsys.readouterr().out)["error"]
    save_profile(replace(measured, origin=replace(measured.origin, store_checksum="f00d")), Path("other.json"))
    assert main(command(store, measured, 2, "--profile", "other.json")) == 1
    assert "other.json is the profile of another store" in capsys.readouterr().err
    assert not (store.path / "pipeline").exists()
    assert sorted(os.listdir()) == sorted([store.path.name, "other.json", "p.json"])
    assert load_profile(Path("p.json"), store) == measured
