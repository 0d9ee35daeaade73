"""estream bench kernels: the comparison as a table and as JSON, and what it needs said in a sentence."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from estream_lab.bench import peers, rounds
from estream_lab.bench.load import OtherLoad
from estream_lab.bench.ours import LANES
from estream_lab.bench.shapes import LayerShape
from estream_lab.cli import main
from estream_lab.cli.bench import kernels

PEER = Path(__file__).parent.parent.parent / "bench" / "numpy_peer.py"
COMMAND = ["bench", "kernels", "--shape", "olmoe", "--tokens", "5", "--threads", "1", "--rounds", "1"]


COMMAND_OF = peers.command
LINE = sum(width + 1 for _, width in kernels.COLUMNS)


@pytest.fixture(autouse=True)
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(rounds, "AWAKE_SECONDS", 0)
    monkeypatch.setitem(kernels.SHAPES, "olmoe", LayerShape("olmoe", 32, 64, 4, 2, 3.0))
    monkeypatch.setattr(peers, "command", lambda name: [sys.executable, str(PEER)])


def test_json_is_printed_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--peer", "ggml", "--json", "-o", "out.json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(Path("out.json").read_text())
    assert {"machine", "peak", "peer_build", "rows"} <= found.keys()
    asked = {"shape", "tokens", "implementation", "quant", "threads", "seconds_median", "times_ours",
             "fraction_of_peak", "relative_error", "token_error", "macs_per_weight_byte"}  # fmt: skip
    assert all(asked <= row.keys() for row in found["rows"])
    assert {(row["shape"], row["tokens"], row["threads"]) for row in found["rows"]} == {("olmoe", 5, 1)}
    assert os.listdir() == ["out.json"]


def test_the_table_names_every_row_and_who_did_not_take_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--peer", "ggml", "torch", "--tokens", "3", "5"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("measured on ") and "1 threads" in out and "medians of 1 rounds" in out
    assert "ggml: none" in out and "torch: none" in out
    for layer in ("olmoe, 3 tokens", "olmoe, 5 tokens"):
        part = out.split(layer)[1].split("\n\n")[0]
        assert [part.count(f"estream {lane.name} ") for lane in LANES] == [1] * len(LANES)
        assert part.count("ggml plain") == part.count("torch halved") == 1
        assert part.count("nobody has this") == 2
        marks = {_name(line): line[LINE:].strip() for line in part.splitlines()}
        assert marks["estream host int8"] == "default" and marks["estream host fp32"] == ""
        assert marks["ggml plain"].startswith("default")
        assert (marks["ggml plain"] + marks["ggml halved"]).count("fastest") == 1
        assert marks["torch plain"] == marks["torch halved"] == ""


def _name(line: str) -> str:
    return line[: kernels.COLUMNS[0][1]].strip()


def test_competitors_add_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--competitor", "2"]) == 0
    out = capsys.readouterr().out
    assert "x busy: time beside 2 busy processes" in out
    (heading,) = (line for line in out.splitlines() if "arithmetic" in line)
    assert heading.endswith(" x busy")
    assert main(COMMAND) == 0
    assert "x busy" not in capsys.readouterr().out


def test_peaks_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(COMMAND) == 0
    out = capsys.readouterr().out
    for told in ("measured peak of int8 in registers: ", "measured peak of fp32 in registers: ", "from memory: "):
        assert out.count(told) == 1


def test_what_peers_do_not_inherit_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert main(COMMAND) == 0
    assert re.search(r"^peers run without .*OMP_NUM_THREADS", capsys.readouterr().out, re.MULTILINE)


def test_what_is_asked_for_twice_is_measured_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--tokens", "3", "3", "--tokens", "3", "--shape", "olmoe", "--json"]) == 0
    assert [row["tokens"] for row in json.loads(capsys.readouterr().out)["rows"]] == [5] * len(LANES) + [3] * len(LANES)


def test_without_peers_ours_are_measured_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["rows"]] == [lane.name for lane in LANES] and found["peer_build"] == {}
    first = found["rows"][0]
    assert first["arithmetic"] == "int8" and first["times_fastest"] is None
    assert 0 < first["fraction_of_peak"] == pytest.approx(first["macs_per_second"] / found["peak"]["int8"])


@pytest.mark.parametrize(("share", "told"), [(0.04, 0), (0.06, 1)])
def test_a_busy_computer_is_told(
    share: float, told: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(OtherLoad, "lap", lambda load: share)
    assert main(COMMAND) == 0
    out = capsys.readouterr().out
    assert out.count("other programs took up to 6 % of this computer") == told
    assert out.count("take figures from a run on an idle one") == told


def test_a_missing_environment_is_one_sentence_and_a_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "command", COMMAND_OF)
    monkeypatch.setattr(peers, "ENVIRONMENT", tmp_path / ".venv-peers")
    assert main([*COMMAND, "--peer", "ggml"]) == 1
    error = capsys.readouterr().err
    assert "make it with `make peers`" in error and error.count("\n") == 1
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--threads", "4000"], "4000 threads were asked for"),
        (["-o", "nowhere/out.json"], "nowhere"),
        (["--competitor", "100000"], "--competitor 100000 is more than"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_measured(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels, "compare", lambda *_, **__: pytest.fail("measured"))
    assert main([*COMMAND, *arguments]) == 1
    assert told in capsys.readouterr().err


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*COMMAND, "--peer", "nobody"])
    assert "invalid choice: 'nobody'" in capsys.readouterr().err
