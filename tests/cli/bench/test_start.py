"""estream bench start: whole commands, with an empty cache of compiled kernels and with a filled one."""

import json
from pathlib import Path

import pytest

from estream_lab.cli import main
from estream_lab.cli.bench import start
from estream_lab.experts.executors import HOST_PROFILES


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was started: profile, and whether its cache was empty. Nothing compiles."""
    seen: list[tuple[str, str]] = []

    def started(store: Path, profile: str, cache: str) -> float:
        kept = Path(cache) / "kernel"
        seen.append((profile, "cached" if kept.exists() else "cold"))
        kept.touch()
        return float(len(seen))

    monkeypatch.setattr(start, "_start", started)
    return seen


def test_each_profile_starts_cold_and_then_cached(
    calls: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "start", "--rounds", "2", "--folder", str(tmp_path / "kept"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    each = [(profile, state) for profile in HOST_PROFILES for state in ("cold", "cached")]
    assert calls == each * 2 and [(row["profile"], row["cache"]) for row in found["rows"]] == each
    assert found["kind"] == "measured" and found["machine"] and found["rounds"] == 2
    first = found["rows"][0]
    assert (first["seconds_least"], first["seconds_median"], first["seconds_most"]) == (1, 4, 7)
    assert [path.suffix for path in (tmp_path / "kept").iterdir()] == [".estream"]  # no cache stays


def test_a_start_that_fails_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(start.EStreamError, match="the prefill of .*nowhere.estream failed: .*is not a store"):
        start._start(tmp_path / "nowhere.estream", "host-f32", str(tmp_path))
