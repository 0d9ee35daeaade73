"""How the tools end."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from estream_lab.errors import EStreamError
from estream_lab.evaluate.regression import FAST, compute
from tools import numerics_table
from tools.command import ended


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_tool_ends_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> int:
        raise EStreamError("the store is gone: pack it")

    def stopped() -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    assert [ended(refuse), ended(stopped, left="all is well"), ended(lambda: 3), ended(lambda: None)] == [1, 130, 3, 0]
    assert capsys.readouterr().err == "the store is gone: pack it\nstopped: all is well\n"


def test_a_record_that_fails_leaves_the_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = tmp_path / "numerics.json"
    baseline.write_text(json.dumps({"fast": 1}))

    class Unwritable:
        def to_json(self) -> dict[str, float]:
            return {"figure": float("nan")}

    monkeypatch.setattr(numerics_table, "BASELINE", baseline)
    monkeypatch.setattr(numerics_table, "_compute", lambda *_: Unwritable())
    monkeypatch.setattr(numerics_table, "tables", lambda _: [])
    monkeypatch.setattr(sys, "argv", ["numerics_table", "--record"])
    with pytest.raises(ValueError, match="Out of range float values"):
        numerics_table.main()
    assert [path.name for path in tmp_path.iterdir()] == ["numerics.json"]
    assert json.loads(baseline.read_text()) == {"fast": 1}


def test_a_text_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match=r"can't read .*none\.txt as a text in UTF-8"):
        compute(numerics_table.DATA / "tiny_moe" / "checkpoint", [tmp_path / "none.txt"], FAST)
