"""estream profile: a file for configure, its figures, and one sentence where there is none."""

import json
import os
from pathlib import Path

import pytest

from estream_lab.cli import main, profile
from estream_lab.machine import processor
from estream_lab.streaming import Store
from estream_lab.tuning.profile_file import load_profile
from tests.stores import SPEC, give_tokenizer, synthetic_store

FEW = ["--group-sizes", "5", "--queue-depths", "1", "--rounds", "1"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return give_tokenizer(synthetic_store(tmp_path)).rename(tmp_path / "a.estream")


def test_a_profile_is_written_and_its_figures_told(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(store), "--tokens", "30", "--rounds", "1", "-o", "p.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    written = load_profile(Path("p.json"), Store(store))
    assert (found["machine"], found["kind"], found["tokens"]) == (processor(), "measured", 30)
    assert (found["requests"], found["other_bytes"]) == (4, written.other_bytes)
    assert [row["group_size"] for row in found["group_sizes"]] == [4, 8]
    row = found["group_sizes"][0]
    assert row["bandwidths"] == {"1": written.bandwidth(4, 1), "2": written.bandwidth(4, 2)}
    assert row["expert_seconds"] == pytest.approx(written.grid(4).runs.sum() / 1e9)


def test_people_see_where_a_limit_was_declared(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("prompt.txt").write_text("a short text of more than eight tokens")
    command = ["profile", str(store), "--prompt-file", "prompt.txt", "--tokens", "8", *FEW, "-o", "p.json"]
    assert main([*command, "--read-bandwidth", "50MB/s"]) == 0
    out = capsys.readouterr().out
    assert "8 tokens (prompt.txt), 1 requests" in out and "measured on" in out
    assert "reads limited to 50 MB/s (declared)" in out and "G=5 " in out and "written         p.json" in out


def test_without_a_prompt_as_many_tokens_are_made_up_as_the_context_holds(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(store), *FEW, "-o", "p.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == SPEC.context  # of 256 by default


def test_an_interrupt_leaves_an_old_profile_whole(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(profile, "calibrate", stop)
    Path("p.json").write_text("before")
    assert main(["profile", str(store), "-o", "p.json"]) == 130
    assert "stopped: no file was changed" in capsys.readouterr().err
    assert Path("p.json").read_text() == "before"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["STORE", "--tokens", "129"], f"--tokens 129 is more than the model's context of {SPEC.context}"),
        (["STORE", "--prompt-file", "none.txt"], "can't read none.txt"),
        (["STORE", "--prompt-file", "empty.txt"], "empty.txt is empty: give a text to measure with"),
        (["STORE", "--prompt-file", "long.txt"], f"long.txt has 200 tokens and the model's context is {SPEC.context}: "
         f"give --tokens {SPEC.context} or fewer"),
        (["STORE", "--queue-depths", "2"], "queue depth 1 is left out"),
        (["STORE", "--group-sizes", "11"], "a group of 11 experts is not between 1 and the layer's 10"),
        (["nowhere.estream"], "nowhere.estream is not a store"),
    ],
)  # fmt: skip
def test_what_cannot_be_profiled_is_one_sentence(
    store: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    Path("empty.txt").write_text("")
    Path("long.txt").write_text("x" * 200)
    before = sorted(os.listdir())
    given = [str(store) if part == "STORE" else part for part in arguments]
    assert main(["profile", *given, "-o", "p.json", "--json"]) == 1
    captured = capsys.readouterr()
    assert message in json.loads(captured.out)["error"] and "Traceback" not in captured.err
    assert sorted(os.listdir()) == before


def test_a_store_without_a_tokenizer_and_an_output_in_the_store_are_told(
    tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sub").mkdir()
    plain = synthetic_store(tmp_path / "sub")
    (tmp_path / "p.txt").write_text("text")
    assert main(["profile", str(plain), "--prompt-file", "p.txt", "-o", "p.json"]) == 1
    assert "has no tokenizer: give --tokens alone" in capsys.readouterr().err
    assert main(["profile", str(store), "-o", str(store / "p.json")]) == 1
    assert "which the store is read from" in capsys.readouterr().err
