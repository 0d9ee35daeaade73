"""estream simulate --replay: a measured trace goes out and comes back, and the distance is told."""

import json
from pathlib import Path

import pytest

from estream_lab.cli import main
from estream_lab.simulate import both_replays
from estream_lab.trace import Trace
from tests.stores import synthetic_store

from .conftest import Run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replays")
    path = folder / "r.estream-trace"
    command = ["prefill", str(synthetic_store(folder)), "--tokens", "1 2 3 4 5 6 7 8", "--group-size", "2"]
    assert main([*command, "--banks", "2", "--read-bandwidth", "4MB/s", "--trace", str(path)]) == 0
    return path


def test_a_recorded_request_is_replayed_and_the_distance_told(estream: Run, recorded: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.estream-trace"
    status, out, _ = estream("simulate", "--replay", str(recorded), "--trace", str(again), "--json")
    assert status == 0
    found, measured = json.loads(out), Trace.from_json(recorded)
    replays = both_replays(measured)
    assert found["measured_seconds"] == measured.request_ns / 1e9
    assert (found["schedule"], found["group_size"], found["banks"], found["queue_depth"]) == ("early", 2, 2, 2)
    assert found["kind"] == "simulated from measured service times"
    assert [row["reads"] for row in found["replays"]] == list(replays)
    for row, trace in zip(found["replays"], replays.values(), strict=True):
        assert row["seconds"] == trace.request_ns / 1e9
        assert row["distance"] == trace.request_ns / measured.request_ns - 1
    assert Trace.from_json(again) == replays["own times"]


def test_people_see_the_measured_time_and_both_replays(estream: Run, recorded: Path) -> None:
    status, out, _ = estream("simulate", "--replay", str(recorded))
    assert status == 0 and "early: G=2 B=2 Q=2" in out and "measured        " in out
    assert out.count(" % from the measured time") == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--banks", "3"), "leave --banks out"),
        (("--schedule", "on-demand"), "leave --schedule out"),
        (("some.estream",), "leave the store out"),
        (("--trace", "RECORDED"), "which --replay is read from"),
    ],
)
def test_a_replay_is_of_the_measured_request_alone(
    estream: Run, recorded: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    given = [str(recorded) if part == "RECORDED" else part for part in arguments]
    status, _, error = estream("simulate", "--replay", str(recorded), *given)
    assert status == 1 and sentence in error and error.count("\n") == 1


def test_a_file_for_a_viewer_is_no_trace_to_replay(estream: Run, tmp_path: Path) -> None:
    chrome = tmp_path / "t.json"
    assert estream("simulate", "--tokens", "32", "--trace", str(chrome))[0] == 0
    status, _, error = estream("simulate", "--replay", str(chrome))
    assert status == 1 and "is not a trace of EStream Lab" in error and ".estream-trace" in error


def test_a_simulated_request_is_not_told_as_measured(estream: Run, recorded: Path, tmp_path: Path) -> None:
    simulated, replayed = tmp_path / "s.estream-trace", tmp_path / "r.estream-trace"
    assert estream("simulate", "--tokens", "32", "--trace", str(simulated))[0] == 0
    assert estream("simulate", "--replay", str(recorded), "--trace", str(replayed))[0] == 0
    for path in (simulated, replayed):
        status, out, error = estream("simulate", "--replay", str(path))
        assert status == 1 and not out and error.count("\n") == 1
        assert f"{path} is no measured request (simulated" in error and "give a trace by estream prefill" in error


def test_only_prefill_says_that_its_traces_can_be_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    for command, told in (("prefill", True), ("simulate", False)):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert ("simulate--replay)" in "".join(capsys.readouterr().out.split())) == told
