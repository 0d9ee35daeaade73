"""Peak memory is the arena's, not the model's: stores of up to 0.9 GB, each prefill in a control group of its own."""

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from estream_lab.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scale")


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[dict[str, Any]]:
    """16, 64 and 256 experts of hidden 1024 and FFN 512 in four layers, streamed through one arena, then resident."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(["bench", "scale", "--folder", str(folder), "--resident", "--json"])
    assert status == 0
    found: list[dict[str, Any]] = json.loads(out.getvalue())["rows"]
    figures = ("implementation", "experts", "store_bytes", "arena_bytes", "peak_memory_bytes", "peak_rss_bytes")
    for row in found:
        sys.stdout.write(" ".join(f"{key}={row[key]}" for key in figures) + "\n")
    return found


def spread(rows: list[dict[str, Any]], key: str) -> float:
    """Largest over smallest, less one."""
    values = [row[key] for row in rows]
    return max(values) / min(values) - 1


def test_the_largest_store_is_a_real_one(rows: list[dict[str, Any]]) -> None:
    assert rows[2]["experts"] == 256
    assert rows[2]["store_bytes"] >= 0.8e9
    assert len({row["arena_bytes"] for row in rows[:3]}) == 1


@pytest.mark.parametrize("key", ["peak_memory_bytes", "peak_rss_bytes"])
def test_streaming_takes_the_same_memory_whatever_the_model(rows: list[dict[str, Any]], key: str) -> None:
    assert spread(rows[:3], key) < 0.05


@pytest.mark.parametrize("key", ["peak_memory_bytes", "peak_rss_bytes"])
def test_a_resident_run_would_fail_that_check(rows: list[dict[str, Any]], key: str) -> None:
    assert {row["implementation"] for row in rows[3:]} == {"resident"}
    assert spread(rows[3:], key) > 1


def test_streamed_and_resident_logits_are_the_same_bits(rows: list[dict[str, Any]]) -> None:
    streamed = {row["experts"]: row["logits_sha256"] for row in rows[:3]}
    assert {row["experts"]: row["logits_sha256"] for row in rows[3:]} == streamed


def test_a_memory_limit_below_the_resident_model_kills_it_and_says_so(folder: Path, capsys: Any) -> None:
    arguments = ["bench", "scale", "--experts", "64", "--folder", str(folder), "--memory-limit", "300MiB"]
    assert main([*arguments, "--json"]) == 0  # streaming fits
    capsys.readouterr()
    assert main([*arguments, "--resident"]) == 1
    assert "did not fit into the memory limit of 314572800 bytes" in capsys.readouterr().err
