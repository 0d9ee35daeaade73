"""estream bench prefill: the comparison as a table and as JSON, and what it needs said in a sentence."""

import json
import os
import sys
from pathlib import Path

import pytest

from estream_lab.bench import peers, rounds
from estream_lab.bench.load import OtherLoad
from estream_lab.bench.prefill import comparison, sizes
from estream_lab.bench.prefill.forms import DEFAULT, Form
from estream_lab.cli import main
from estream_lab.cli.bench import prefill

FAKE = Path(__file__).parent.parent.parent / "bench" / "llama_fake.py"
SIZES = ["--hidden", "256", "--ffn", "256", "--layers", "1", "--experts", "2", "--top-k", "1", "--vocab", "64"]
COMMAND = ["bench", "prefill", *SIZES, "--tokens", "5", "--threads", "1", "--rounds", "1"]
FORMS = [DEFAULT, Form("q4_K", True, 128, "on"), Form("iq4_xs", True, 128, "on")]
COMMAND_OF = peers.command
LINE = sum(width + 1 for _, width in prefill.COLUMNS)


@pytest.fixture(autouse=True)
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(rounds, "AWAKE_SECONDS", 0)
    monkeypatch.setattr(comparison, "sweep", lambda: FORMS)
    monkeypatch.setattr("estream_lab.bench.prefill.llama.command", lambda name: [sys.executable, str(FAKE)])
    monkeypatch.setattr(peers, "command", lambda name: [sys.executable, str(FAKE)])


def test_json_is_printed_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--peer", "llama.cpp", "--json", "-o", "out.json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(Path("out.json").read_text())
    asked = {"implementation", "name", "experts", "dense", "tokens_per_second", "of_default", "of_fastest",
             "relative_error"}  # fmt: skip
    assert all(asked <= row.keys() for row in found["rows"]) and len(found["rows"]) == 7
    assert (found["tokens"], found["threads"], found["model"]["vocab"]) == (5, 1, 64)
    assert os.listdir() == ["out.json"]


def test_the_table_names_every_row_with_its_quantisations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--peer", "llama.cpp"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("5 tokens through 1 layers of 2 experts") and "1 threads" in out and "1 rounds" in out
    assert "llama.cpp: none\n" in out and "llama.cpp agrees on float32 weights" in out
    assert "sweep: 2 forms, one run each: 0.51 to 1.00 s" in out
    marks = {line[: prefill.COLUMNS[0][1]].strip(): line[LINE:].strip() for line in out.splitlines()}
    ours = [f"estream host-{kind} {how}" for kind in ("int8", "f32") for how in ("resident", "streaming")]
    assert [marks[name] for name in ours] == ["f32", "f32 (default)", "f32", "f32"]
    assert marks["llama.cpp q4_0 by default"] == "head q6_k, attention q4_0 x6 q5_0 x1 (default)"
    assert marks["llama.cpp q4_K repacked, 128 tokens, flash on"].endswith(" (fastest)")
    assert "llama.cpp iq4_xs repacked, 128 tokens, flash on nobody quantises to this" in out


def test_our_dense_weights_may_be_quantised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--dense-quant", "q8_0", "--folder", "kept"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("estream host-")]
    assert len(rows) == 4 and all(line.removesuffix(" (default)").endswith(" q8_0") for line in rows)
    assert main([*COMMAND, "--folder", "kept"]) == 0  # a store of its own
    assert len([name for name in os.listdir("kept") if name.startswith("synthetic")]) == 2


def test_a_folder_keeps_the_store_and_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    command = [*COMMAND, "--peer", "llama.cpp", "--folder", "kept"]
    assert main(command) == 0
    kept = {path.name: path.stat().st_mtime_ns for path in Path("kept").iterdir()}
    assert sorted(name.partition("-")[0] for name in kept) == ["plain", "q4_0", "q4_K", "synthetic"]
    assert main(command) == 0
    assert {path.name: path.stat().st_mtime_ns for path in Path("kept").iterdir()} == kept
    assert os.listdir() == ["kept"]
    assert main([*command, "--vocab", "65"]) == 1
    error = capsys.readouterr().err
    assert "is a store of another model: give another --folder" in error


@pytest.mark.parametrize(("share", "told"), [(0.04, 0), (0.06, 1)])
def test_a_busy_computer_is_told(
    share: float, told: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(OtherLoad, "lap", lambda load: share)
    assert main(COMMAND) == 0
    out = capsys.readouterr().out
    assert out.count("other programs took up to 6 % of this computer") == told
    assert out.count("take figures from a run on an idle one") == told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--top-k", "3"], "--top-k 3 is more than the 2 experts"),
        (["--tokens", "5000"], "--tokens 5000 is more than the model's context of 4096"),
        (["--hidden", "128", "--peer", "llama.cpp"], "--hidden 128 is no multiple of 256"),
        (["--ffn", "32", "--peer", "llama.cpp"], "--ffn 32 is no multiple of 256"),
        (["--threads", "100000"], "threads"),
        (["-o", "nowhere/out.json"], "nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_a_status(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, *options]) == 1
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1 and os.listdir() == []


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*COMMAND, "--peer", "ggml"])
    assert ended.value.code == 2 and "llama.cpp" in capsys.readouterr().err


def test_what_does_not_fit_is_told_before_the_store_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sizes, "available_memory_bytes", lambda: 1000)
    assert main([*COMMAND, "--folder", "kept"]) == 1
    error = capsys.readouterr().err
    assert "GiB of memory at their peak, and 0.0 GiB are free" in error and error.count("\n") == 1
    assert not Path("kept").exists()


def test_a_missing_environment_is_told_before_the_store_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "command", COMMAND_OF)
    monkeypatch.setattr(peers, "ENVIRONMENT", tmp_path / ".venv-peers")
    assert main([*COMMAND, "--peer", "llama.cpp", "--folder", "kept"]) == 1
    error = capsys.readouterr().err
    assert "make it with `make peers`" in error and error.count("\n") == 1
    assert not Path("kept").exists()
