"""The first call on a computer: it compiles, says so, and what it keeps serves all that come after or at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from estream_lab.experts.executors import HOST_PROFILES
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming.pack import pack_synthetic

TOKENS = "1 2 3 4 5"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of Q4_0 experts, which every profile reads."""
    spec = synthetic_spec(hidden=64, ffn=64, layers=2, experts=6, top_k=2)
    return pack_synthetic(SyntheticSource(spec), tmp_path_factory.mktemp("cold") / "s.estream", progress=False).path


def start(store: Path, cache: Path, profile: str, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "estream_lab", "prefill", str(store), "--tokens", TOKENS, "--group-size", "3"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_DEBUG_CACHE": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, "--profile", profile, *more], env=environment, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


def figures(out: str) -> dict[str, object]:
    """The result, below what numba tells of its cache."""
    found: dict[str, object] = json.loads(out.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("profile", HOST_PROFILES)
def test_processes_that_compile_at_once_give_one_result_and_leave_a_whole_cache(
    store: Path, tmp_path: Path, profile: str
) -> None:
    both = [start(store, tmp_path, profile, "--json") for _ in range(2)]
    results = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], results
    assert any("data saved" in out for out, _ in results)  # both, unless one came late
    later = start(store, tmp_path, profile, "--json")
    out, err = later.communicate(timeout=300)
    assert later.returncode == 0, err
    assert "data saved" not in out and out.count("data loaded") > 5
    assert len({figures(text)["logits_sha256"] for text in (out, *(text for text, _ in results))}) == 1


def test_the_first_call_shows_that_it_compiles_and_later_ones_do_not(store: Path, tmp_path: Path) -> None:
    for first in (True, False):
        process = start(store, tmp_path, HOST_PROFILES[0])
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert ("compiling kernels, once on this computer" in err) == first, err
