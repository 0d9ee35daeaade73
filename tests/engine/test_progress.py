"""The bar of a prefill: a sign of life while one layer takes long, and nothing where nothing is to be seen."""

import threading
from pathlib import Path

import pytest

from estream_lab.engine import PrefillEngine, progress
from estream_lab.engine.progress import progress as bar_of


def test_a_long_step_shows_what_has_arrived(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.01)
    arrived, asked = [7_000_000], threading.Event()

    def count() -> int:
        if arrived[0] > 7_000_000:
            asked.set()
        return arrived[0]

    with bar_of(2, count, shown=True) as bar:
        arrived[0] += 1_300_000
        assert asked.wait(60)
        asked.clear()
        assert asked.wait(60)  # the one before is on the screen
        bar.update()
    assert "prefill:   0%" in (shown := capsys.readouterr().err) and "1.3 MB read" in shown and "0/2" in shown


def test_a_bar_that_is_not_shown_starts_no_thread(capsys: pytest.CaptureFixture[str]) -> None:
    with bar_of(2, lambda: pytest.fail("asked"), shown=False) as bar:
        assert not [thread for thread in threading.enumerate() if thread.name == "estream-progress"]
        bar.update()
    assert capsys.readouterr().err == ""


def test_a_slow_prefill_tells_how_much_it_has_read(
    store_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.02)
    with PrefillEngine.open(store_path, group_size=5, banks=1, read_bandwidth=1e6) as engine:
        engine.prefill([1, 2, 3], progress=True)
    shown = capsys.readouterr().err
    assert "MB read" in shown and "/3" in shown
    assert not [thread for thread in threading.enumerate() if thread.name == "estream-progress"]
