"""estream sweep: samples on disk, a table, regrets by a profile, and going on after ^C."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.cli import main
from estream_lab.machine import processor
from estream_lab.streaming import Store
from estream_lab.tuning import sweep
from estream_lab.tuning.calibrate import calibrate
from estream_lab.tuning.profile_file import save_profile
from estream_lab.tuning.samples_file import read_samples
from tests.stores import synthetic_store

FEW = ["--group-sizes", "5", "10", "--tokens", "20", "--rounds", "2", "-o", "s.jsonl"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(synthetic_store(tmp_path))


def test_every_configuration_is_measured_and_told(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", store, *FEW, "--json", "--read-bandwidth", "50MB/s"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["machine"], found["kind"], found["tokens"], found["samples"]) == (processor(), "measured", 20, 8)
    assert found["read_bandwidth"] == 5e7 and "regrets" not in found
    assert {(row["queue_depth"], row["banks"], row["group_size"]) for row in found["rows"]} == {
        (1, 1, 5), (1, 2, 5), (2, 2, 5), (1, 1, 10),
    }  # fmt: skip
    medians = [row["seconds_median"] for row in found["rows"]]
    assert medians == sorted(medians)
    subject, samples = read_samples(Path("s.jsonl"))
    assert len(samples) == 8 and subject["configurations"] == found["configurations"]
    for row in found["rows"]:
        mine = [s.seconds for s in samples if s.configuration == (row["queue_depth"], row["banks"], row["group_size"])]
        assert (row["seconds_median"], row["samples"]) == (np.median(mine), 2)


def test_with_a_profile_what_its_choices_cost_is_told(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    opened = Store(store)
    found = calibrate(opened, np.arange(20, dtype=np.int32), prompt="n", sizes=[5, 10], rounds=1)
    save_profile(found, Path("p.json"))
    assert main(["sweep", store, *FEW, "--profile", "p.json", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["model"], each["budget"]) for each in told["regrets"]] == [
        (model, budget) for model in ("literal", "shared") for budget in ("low", "medium", "high")
    ]
    assert all(each["regret"] >= 0 for each in told["regrets"]) and set(told["noise_floor"]) == {
        "low",
        "medium",
        "high",
    }
    assert main(["sweep", store, *FEW, "--profile", "p.json", "--read-bandwidth", "9GB/s"]) == 1
    assert "s.jsonl is a sweep of another read bandwidth (0.0, and this is of 9000000000.0)" in capsys.readouterr().err
    assert main(["sweep", store, *FEW, "--profile", "p.json"]) == 0  # all samples are there
    out = capsys.readouterr().out
    assert (
        "4 configurations, 8 samples" in out
        and "by the faster half of its samples" in out
        and "regret" in out
        and "noise floor" in out
    )
    assert "literal high   budget" in out and "shared  low    budget" in out and "written         s.jsonl" in out


def test_a_stopped_sweep_says_what_is_kept_and_goes_on(
    store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = sweep._measure, 0

    def measure(*arguments: Any, **settings: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return real(*arguments, **settings)

    monkeypatch.setattr(sweep, "_measure", measure)
    assert main(["sweep", store, *FEW]) == 130
    told = "stopped: 3 samples are kept in s.jsonl, run the same command again to go on"
    assert told in capsys.readouterr().err
    before = Path("s.jsonl").read_bytes()
    Path("s.jsonl").write_bytes(before + b'{"round": 0, "queue_d')
    assert main(["sweep", store, *FEW]) == 0
    captured = capsys.readouterr()
    assert "s.jsonl: the last line was cut off, its sample is measured again" in captured.err
    assert Path("s.jsonl").read_bytes().startswith(before) and len(read_samples(Path("s.jsonl"))[1]) == 8
    assert calls == 4 + 5


def test_stopped_before_it_began_it_keeps_nothing(
    store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("estream_lab.cli.sweep.measured_prompt", stop)
    assert main(["sweep", store, *FEW]) == 130
    assert "stopped: no file was changed" in capsys.readouterr().err and not Path("s.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--group-sizes", "10", "--queue-depths", "2", "-o", "s.jsonl"], "give smaller --queue-depths"),
        (["--tokens", "500", "-o", "s.jsonl"], "--tokens 500 is more than the model's context"),
        (["--profile", "none.json", "-o", "s.jsonl"], "can't read the profile none.json"),
        (["-o", "no/where/s.jsonl"], "Cannot write no/where/s.jsonl"),
        (["-o", "notes.txt"], "notes.txt is no sweep of EStream Lab: give another file"),
    ],
)
def test_what_cannot_be_swept_is_one_sentence(
    store: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    Path("notes.txt").write_text("my notes")
    assert main(["sweep", store, *arguments]) == 1
    err = capsys.readouterr().err
    assert message in err and len(err.strip().splitlines()) == 1
    assert sorted(os.listdir()) == sorted(["notes.txt", Path(store).name])
    assert Path("notes.txt").read_text() == "my notes"
