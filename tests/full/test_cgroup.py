"""Memory control groups: the peak counts page cache, and a limit kills."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from estream_lab import cgroup
from estream_lab.cgroup import run_in_group
from estream_lab.errors import EStreamError

MIB = 1 << 20


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_the_peak_counts_memory_that_was_touched() -> None:
    idle = run_in_group(python("pass"))
    busy = run_in_group(python(f"b = bytearray({64 * MIB}); b[::4096] = b'x' * {64 * MIB // 4096}; print(len(b))"))
    assert (idle.status, busy.status, busy.stdout) == (0, 0, f"{64 * MIB}\n")
    assert 60 * MIB < busy.peak_memory_bytes - idle.peak_memory_bytes < 80 * MIB


def test_the_peak_counts_page_cache(tmp_path: Path) -> None:
    """What a resident set hides: 32 MiB written to a file and let go of by the process."""
    idle = run_in_group(python("pass"))
    code = f"f = open({str(tmp_path / 'file')!r}, 'wb')\nfor _ in range(32): f.write(bytes({MIB}))"
    written = run_in_group(python(code))
    assert written.peak_memory_bytes - idle.peak_memory_bytes > 28 * MIB


def test_a_limit_kills_what_exceeds_it() -> None:
    done = run_in_group(python(f"b = bytearray({256 * MIB}); b[::4096] = b'x' * {256 * MIB // 4096}"), 64 * MIB)
    assert done.status == -9
    assert done.peak_memory_bytes <= 64 * MIB


def groups_of(process: int) -> list[Path]:
    """Other people's runs on this computer have groups too."""
    return list(cgroup._controller().root.glob(f"estream-{process}-*"))


def test_the_group_is_gone_afterwards_and_status_is_passed_on() -> None:
    assert run_in_group(python("import sys; sys.exit(3)")).status == 3
    assert not groups_of(os.getpid())


def test_a_command_that_takes_too_long_is_ended_and_its_group_with_it() -> None:
    with pytest.raises(EStreamError, match="took more than 0.5 s"):
        run_in_group(python("import time; time.sleep(600)"), timeout=0.5)
    assert not groups_of(os.getpid())


def test_the_group_of_a_killed_run_goes_with_the_next_run() -> None:
    code = (
        "import os\nfrom estream_lab.cgroup import run_in_group\nrun_in_group(['sh', '-c', f'kill -9 {os.getpid()}'])"
    )
    killed = subprocess.Popen([sys.executable, "-c", code])
    assert killed.wait() == -9 and groups_of(killed.pid)
    while groups_of(killed.pid):  # until its shell has ended too
        assert run_in_group(python("pass")).status == 0


def test_a_limit_that_the_kernel_refuses_is_said() -> None:
    with pytest.raises(EStreamError, match="can't use the memory control group"):
        run_in_group(["true"], limit_bytes=-5)


def test_a_system_without_controllers_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cgroup, "Path", lambda _: tmp_path)
    with pytest.raises(EStreamError, match="no memory control groups"):
        run_in_group(["true"])
