"""estream pack --dense-quant, and what every later command says of such a store."""

import json
from pathlib import Path
from typing import Any

import pytest

from estream_lab.cli import main
from estream_lab.engine import PrefillEngine
from estream_lab.streaming import Store
from estream_lab.streaming import pack as module
from tests.golden_compare import TINY_MOE
from tests.streaming.test_pack import files, write_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("dense") / "checkpoint")


def pack(checkpoint: Path, output: Path, *more: str) -> int:
    return main(["pack", str(checkpoint), "-o", str(output), *more])


@pytest.mark.parametrize(
    ("option", "told", "stored"),
    [([], "keep", "f32"), (["--dense-quant", "q8_0"], "q8_0", "q8_0"), (["--dense-quant", "q4_0"], "q4_0", "q4_0")],
)
def test_the_quantisation_is_told_from_packing_to_the_report(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str], told: str, stored: str
) -> None:
    path, report = tmp_path / "m.estream", tmp_path / "report.html"
    assert pack(checkpoint, path, *option, "--json") == 0
    packed = json.loads(capsys.readouterr().out)
    assert packed["dense_quant"] == told and packed["dense_bytes"] == (path / "dense.safetensors").stat().st_size
    run = ["prefill", str(path), "--tokens", "1,2,3"]
    assert main([*run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dense_quant"] == stored
    assert main([*run, "--report", str(report)]) == 0
    assert f"q4-32x32, dense {stored}, measured on" in capsys.readouterr().out
    assert f"<td>dense_quant</td><td>{stored}</td>" in report.read_text()
    assert main(["doctor", str(path), "--json"]) in (0, 1)
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert f"every dense tensor ({stored})" in next(f["detail"] for f in findings if f["name"] == "store")


def test_people_are_told_too(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pack(checkpoint, tmp_path / "m.estream", "--dense-quant", "q4_0") == 0
    assert capsys.readouterr().out.endswith("of the rest (q4_0)\n")


def test_an_interrupted_pack_asks_for_the_same_quantisation(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "write_dense", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert pack(checkpoint, tmp_path / "m.estream", "--dense-quant", "q8_0") == 130
    assert "run the same command again to go on" in capsys.readouterr().err
    monkeypatch.undo()
    assert pack(checkpoint, tmp_path / "m.estream", "--json") == 1
    assert "begun from another checkpoint or with other settings" in json.loads(capsys.readouterr().out)["error"]
    assert pack(checkpoint, tmp_path / "m.estream", "--dense-quant", "q8_0") == 0
    assert "3 layers resumed" in capsys.readouterr().out
    assert pack(checkpoint, tmp_path / "n.estream", "--dense-quant", "q8_0") == 0
    assert files(tmp_path / "m.estream") == files(tmp_path / "n.estream")


def test_experts_are_ordered_by_the_routes_of_the_model_that_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.txt").write_text("In the beginning God created the heaven and the earth.")
    used: list[str] = []
    real = PrefillEngine.__init__

    def init(engine: PrefillEngine, store: Store, *more: Any) -> None:
        used.append(store.dense_quant)
        real(engine, store, *more)

    monkeypatch.setattr(PrefillEngine, "__init__", init)
    prompt = ["--order", "popularity", "--order-prompt-file", str(tmp_path / "t.txt")]
    assert pack(TINY_MOE, tmp_path / "m.estream", "--dense-quant", "q4_0", *prompt) == 0
    assert used == ["q4_0"]
