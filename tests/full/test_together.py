"""Two commands at once on one store, of different schedules, arenas and threads, one of them killed: no bit changes."""

import json
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.full.processes import started
from tests.stores import synthetic_store

TOKENS = " ".join(map(str, range(40, 64)))
SETTINGS = {
    "early": ["--schedule", "early", "--group-size", "3", "--banks", "2", "--threads", "1"],
    "on-demand": ["--schedule", "on-demand", "--group-size", "2", "--banks", "1"],
    "carry-over": ["--carry-over", "--group-size", "1", "--banks", "8", "--queue-depth", "4"],
    "slow": ["--schedule", "after-routing", "--group-size", "5", "--banks", "2", "--read-bandwidth", "1MB/s"],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_store(tmp_path_factory.mktemp("together"))


def start(store: Path, settings: list[str]) -> AbstractContextManager["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "estream_lab", "prefill", str(store), "--tokens", TOKENS, "--json", *settings]
    return started(command, stderr=subprocess.DEVNULL)


def logits(process: "subprocess.Popen[str]") -> str:
    out, _ = process.communicate()
    assert process.returncode == 0
    return str(json.loads(out)["logits_sha256"])


def alone(store: Path, settings: list[str]) -> str:
    with start(store, settings) as process:
        return logits(process)


def test_processes_at_once_and_one_killed_beside_them(store: Path) -> None:
    expected = alone(store, ["--resident"])
    with ExitStack() as processes:
        together = {name: processes.enter_context(start(store, settings)) for name, settings in SETTINGS.items()}
        doomed = processes.enter_context(start(store, [*SETTINGS["early"], "--read-bandwidth", "1KB/s"]))
        assert {name: logits(process) for name, process in together.items()} == dict.fromkeys(SETTINGS, expected)
        assert doomed.poll() is None  # it was there all the time
        doomed.kill()
        doomed.communicate()
        assert doomed.returncode == -signal.SIGKILL
    assert alone(store, SETTINGS["early"]) == expected
