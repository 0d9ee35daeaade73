"""The system's own answers, injected into the real command: strace puts them in the place of the kernel's."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stores import synthetic_store

TOKENS = " ".join(map(str, range(40, 64)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_store(tmp_path_factory.mktemp("injection"))


def command(store: Path, *more: str) -> list[str]:
    """One read at a time: strace counts the calls of each thread by itself."""
    shape = ["--group-size", "3", "--banks", "2", "--queue-depth", "1", "--json"]
    return [sys.executable, "-m", "estream_lab", "prefill", str(store), "--tokens", TOKENS, *shape, *more]


def inject(call: str, what: str, arguments: list[str], path: Path | None = None) -> subprocess.CompletedProcess[str]:
    assert shutil.which("strace"), "this test needs strace (Debian and Ubuntu: apt install strace)"
    only = ["-P", str(path)] if path else []
    fast = [] if "signal" in what else ["--seccomp-bpf"]  # it stops at this call only, but loses signals
    traced = ["strace", "-f", *fast, "-qq", "-o", "/dev/null", *only]
    traced += ["-e", f"trace={call}", "-e", f"inject={call}:{what}"]
    return subprocess.run([*traced, *arguments], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def logits(store: Path) -> str:
    done = subprocess.run(command(store, "--resident"), capture_output=True, text=True, timeout=120, check=True)
    return str(json.loads(done.stdout)["logits_sha256"])


SAME = {
    "EINTR nine times": "error=EINTR:when=2..10",
    "EAGAIN three times": "error=EAGAIN:when=3..5",
    "direct reads refused": "error=EINVAL:when=1",
    "every read late": "delay_enter=20000",
}


@pytest.mark.parametrize("case", SAME)
def test_what_can_be_mended_gives_the_same_bits(store: Path, logits: str, case: str) -> None:
    done = inject("preadv2", SAME[case], command(store))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["logits_sha256"] == logits
    assert result["direct_io"] == ("refused" not in case)


ERRORS = {
    "EIO on the first read": (
        "error=EIO:when=1",
        "reading group 0 of layer 0 from .* failed: Input/output error: ",
    ),
    "EIO on the last read": (
        "error=EIO:when=12",
        "reading group 3 of layer 2 from .* failed: Input/output error: ",
    ),
    "EAGAIN for ever": ("error=EAGAIN:when=4+", "failed: Resource temporarily unavailable, 11 times: wait until"),
    "a read that says it read": (
        "retval=12288:when=6",
        "expert . of layer 1 in .* has a wrong checksum: ",
    ),
    "an end that isn't there": ("retval=0:when=6", "ended 12288 bytes early in group 1 of layer 1: it was cut off"),
    "a disk that has gone": ("error=ENODEV:when=7+", "reading group 2 of layer 1 .* failed: No such device: check"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_cannot_be_mended_is_one_sentence(store: Path, case: str) -> None:
    what, sentence = ERRORS[case]
    done = inject("preadv2", what, command(store))
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and len(lines) == 1 and re.search(sentence, lines[0]), done.stderr


@pytest.mark.parametrize(("signal", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_that_comes_with_a_read_is_one_sentence(store: Path, signal: str, status: int) -> None:
    done = inject("preadv2", f"signal={signal}:when=5", command(store))
    assert (done.returncode, done.stderr) == (status, "estream: stopped: no file was changed\n")


def test_another_file_system_gives_the_same_bits_and_says_how_it_reads(store: Path, logits: str) -> None:
    """One in memory: older kernels refuse direct I/O there, newer ones take it."""
    folder = Path("/dev/shm") / f"estream-{store.parent.name}"
    shutil.copytree(store, folder)
    try:
        done = subprocess.run(command(folder), capture_output=True, text=True, timeout=120, check=True)
    finally:
        shutil.rmtree(folder)
    result = json.loads(done.stdout)
    assert result["logits_sha256"] == logits
    assert result["direct_io"] or result["fallback_reason"]


def test_dense_weights_that_cannot_be_read_are_one_sentence(store: Path) -> None:
    done = inject("pread64", "error=EIO:when=20+", command(store), path=store / "dense.safetensors")
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and len(lines) == 1, done.stderr
    assert re.search(r"reading '.*' of .*dense\.safetensors failed: Input/output error: check the disk", lines[0])
