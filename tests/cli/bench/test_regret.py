"""estream bench regret: a profile, two sweeps and verdicts in one command, which goes on where it was stopped."""

import json
from pathlib import Path
from typing import Any

import pytest

from estream_lab.cli import main
from estream_lab.cli.bench import regret
from estream_lab.simulate import SharedBandwidth
from estream_lab.streaming import Store
from estream_lab.tuning import misses, sweep, trial
from estream_lab.tuning.grids import Configuration, configurations, group_sizes
from estream_lab.tuning.pilot import Pilot
from estream_lab.tuning.samples_file import read_samples
from tests.stores import SPEC, synthetic_store
from tests.tuning.profiles import calibration, profile, routes

GRID = len(configurations(SPEC.experts))
SHORT = ["--tokens", "20", "--rounds", "1", "--profile-rounds", "1"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(synthetic_store(tmp_path))


def test_three_bandwidths_are_tried_and_every_model_is_judged(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "regret", store, *SHORT, "--json", "-o", "out.json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found == json.loads(Path("out.json").read_bytes())
    assert (found["kind"], found["tokens"], found["store_checksum"]) == ("measured", 20, Store(Path(store)).checksum)
    balance = Pilot(**found["pilot"]).balanced_bandwidth
    assert [each["read_bandwidth"] for each in found["trials"]] == [round(f * balance) for f in (0.5, 1, 2)]
    for each in found["trials"]:
        assert (each["configurations"], each["samples"]) == (GRID, 2 * GRID)
        told = [(one["model"], one["budget"]) for one in each["regrets"]]
        assert told == [(model, budget) for model in ("literal", "shared") for budget in ("low", "medium", "high")]
    for each in found["verdicts"]:
        mine = [one["regret"] for t in found["trials"] for one in t["regrets"] if one["model"] == each["model"]]
        assert (each["choices"], each["worst"]) == (9, max(mine)) and each["median"] == sorted(mine)[4]
    assert "minutes" in captured.err.splitlines()[0] and f"for {4 + 2 * GRID} samples at each" in captured.err


def test_the_same_command_goes_on_where_it_was_stopped(
    store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = sweep._measure, 0

    def measure(*arguments: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == GRID + 3:
            raise KeyboardInterrupt
        return real(*arguments, **settings)

    monkeypatch.setattr(sweep, "_measure", measure)
    command = ["bench", "regret", store, *SHORT, "--folder", "kept", "--read-bandwidth", "20MB/s", "40MB/s"]
    assert main(command) == 130
    assert "stopped: finished files are kept in kept" in capsys.readouterr().err
    (folder,) = Path("kept").iterdir()
    profile = (folder / "profile-20000000.json").read_bytes()
    assert len(read_samples(folder / "sweep-20000000.jsonl")[1]) == GRID + 2
    assert main(command) == 0
    assert calls == GRID + 3 + (GRID - 2) + 2 * GRID
    assert (folder / "profile-20000000.json").read_bytes() == profile
    out = capsys.readouterr().out
    assert "reads limited to 20.0 MB/s (declared)" in out and "reads limited to 40.0 MB/s (declared)" in out
    assert out.splitlines()[-1].startswith("shared ") and "of 6 choices are the fastest" in out
    assert main([*command, "--threads", "1"]) == 1
    assert "is the pilot of another prompt or threads" in capsys.readouterr().err


def test_rounds_that_were_not_asked_for_are_not_counted(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of more rounds gives those of fewer; its profile is that of its own rounds alone."""
    command = ["bench", "regret", store, *SHORT, "--folder", "kept", "--json", "--read-bandwidth", "40MB/s", "40MB/s"]
    for rounds in (2, 1):
        assert main([*command, "--rounds", str(rounds)]) == 0
        found = json.loads(capsys.readouterr().out)
        (tried,) = found["trials"]  # of a bandwidth that was named twice
        assert (found["rounds"], tried["samples"]) == (rounds, 2 * rounds * GRID)
    assert main([*command, "--profile-rounds", "2"]) == 1
    assert "is the profile of another prompt, threads, group sizes or rounds" in capsys.readouterr().err


def test_a_miss_is_taken_apart(store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(trial, "is_miss", lambda each, floor: True)
    asked: list[Any] = []
    real = misses.traced

    def traced(store: Store, tokens: Any, configuration: Any, **settings: Any) -> Any:
        asked.append(configuration)
        return real(store, tokens, configuration, **settings)

    monkeypatch.setattr(trial, "traced", traced)
    assert main(["bench", "regret", store, *SHORT, "--folder", "k", "--read-bandwidth", "20MB/s", "--json"]) == 0
    (tried,) = json.loads(capsys.readouterr().out)["trials"]
    pairs = {(r["model"], *r["chosen"].values(), *r["fastest"].values()) for r in tried["regrets"]}
    told = [
        (m["model"], *m["chosen"]["configuration"].values(), *m["fastest"]["configuration"].values())
        for m in tried["misses"]
    ]
    assert len(told) == len(pairs) and set(told) == pairs
    assert len(asked) == len(set(asked))
    for miss in tried["misses"]:
        seconds = [miss[each]["traced_seconds"] for each in ("chosen", "fastest")]
        assert miss["regret_again"] == seconds[0] / seconds[1] - 1
        depth = miss["fastest"]["configuration"]["queue_depth"]
        assert miss["held_to_depth"] in ((None,) if miss["model"] == "shared" else (None, 3 - depth))
        for each in (miss["chosen"], miss["fastest"]):
            off = {part["name"]: abs(part["traced"] - part["predicted"]) for part in each["parts"]}
            assert each["furthest"] == max(off, key=lambda name: off[name])
            assert sum(part["traced"] for part in each["parts"]) > each["traced_seconds"] > 0
    assert main(["bench", "regret", store, *SHORT, "--folder", "k", "--read-bandwidth", "20MB/s"]) == 0
    out = capsys.readouterr().out
    assert "why literal misses" in out and out.count("; by profile/trace in seconds:") == len(pairs)


def test_a_rule_that_leaves_the_depth_of_the_fastest_out_is_told() -> None:
    loads = routes(2, 4)
    fast, equal = SharedBandwidth(2e9), SharedBandwidth(1e9)
    for second, held in ((fast, 2), (equal, 1)):
        found = profile(loads, [calibration(loads, 1, 1, equal), calibration(loads, 1, 2, second)])
        for fastest in (Configuration(1, 3, 1), Configuration(2, 3, 1)):
            told = trial._held(found, "literal", fastest)
            assert told == (None if fastest.queue_depth == held else held)
            assert trial._held(found, "shared", fastest) is None
        assert trial._held(found, "literal", Configuration(1, 1, 1)) is None


def test_a_quick_run_says_so_and_measures_a_round_a_sweep(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "regret", store, *SHORT[:2], "--rounds", "9", "--quick", "--read-bandwidth", "40MB/s"]) == 0
    captured = capsys.readouterr()
    assert "quick: a smaller grid and fewer rounds" in captured.out and f"{2 * GRID} samples" in captured.out
    assert trial.quick_sizes(64) == group_sizes(64)[1:] and trial.quick_sizes(32) == group_sizes(32)


def test_the_shipped_model_and_its_heldout_text_are_measured_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[trial.Plan] = []

    def measure(plan: trial.Plan, *_: Any, **__: Any) -> Any:
        found.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr(regret, "measure", measure)
    assert main(["bench", "regret", "--json"]) == 130
    (plan,) = found
    assert (plan.prompt, len(plan.tokens), plan.store.path.name) == ("text.txt", 256, "tiny_moe.estream")
    assert (plan.sizes, plan.rounds, plan.profile_rounds) == (group_sizes(plan.store.spec.experts), 2, 3)


def test_a_store_and_a_synthetic_one_are_one_too_many(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "regret", store, "--synthetic"]) == 1
    assert "give a store or --synthetic, not both" in capsys.readouterr().err
