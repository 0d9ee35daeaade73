"""Memory figures of this process."""

import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from estream_lab.machine import (
    available_cpus,
    available_memory_bytes,
    memory_budget_bytes,
    peak_rss_bytes,
    processor,
    release_free_memory,
    reset_peak_rss,
    rss_bytes,
)


def test_the_peak_follows_memory_that_was_touched_and_can_be_reset() -> None:
    before = rss_bytes()
    block = np.ones(48 << 17)  # 48 MiB
    assert peak_rss_bytes() - before > 40 << 20
    del block
    if sys.platform == "linux":
        assert reset_peak_rss()
        assert peak_rss_bytes() < before + (24 << 20)


def test_the_machine_is_described() -> None:
    assert available_cpus() >= 1
    assert processor()


def test_memory_that_is_free_but_kept_by_the_allocator_goes_back() -> None:
    release_free_memory()  # else the blocks may find room in what other tests left
    before = rss_bytes()
    blocks = [np.ones(8 << 10) for _ in range(512)]  # 32 MiB in pieces too small to be mapped one by one
    last = np.ones(8 << 10)  # keeps the heap from shrinking by itself
    assert rss_bytes() - before > 24 << 20
    del blocks
    release_free_memory()
    if sys.platform == "linux":
        assert rss_bytes() - before < 8 << 20
    assert last[0] == 1


MEMINFO = """\
MemTotal:        8000000 kB
MemFree:         1000000 kB
MemAvailable:    3000000 kB
Buffers:           50000 kB
Cached:          2400000 kB
Mapped:           700000 kB
HugePages_Total:       0
Hugepagesize:       2048 kB
"""
SYSTEM = 1024 * (3_000_000 - 700_000)  # mapped files are not free
MIB = 1 << 20


def system(root: Path, cgroup: str = "", mountinfo: str = "", files: dict[str, str] | None = None) -> Path:
    """A machine's /proc and /sys, written by hand."""
    texts = {"proc/meminfo": MEMINFO, "proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo, **(files or {})}
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MOUNT_2 = "35 25 0:30 {top} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
MOUNT_1 = "41 32 0:37 {top} /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
OTHER_1 = "40 32 0:36 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"


def group_2(limit: str, current: int = 0, inactive: int = 0, active: int = 0, mapped: int = 0) -> dict[str, str]:
    stat = f"anon 5\nfile 99\nfile_mapped {mapped}\ninactive_file {inactive}\nactive_file {active}\n"
    return {"memory.max": f"{limit}\n", "memory.current": f"{current}\n", "memory.stat": stat}


def group_1(limit: int, usage: int = 0, inactive: int = 0, active: int = 0, mapped: int = 0) -> dict[str, str]:
    stat = f"cache 7\ntotal_mapped_file {mapped}\ntotal_inactive_file {inactive}\ntotal_active_file {active}\n"
    return {"memory.limit_in_bytes": f"{limit}\n", "memory.usage_in_bytes": f"{usage}\n", "memory.stat": stat}


def within(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


def test_mapped_files_are_not_free(tmp_path: Path) -> None:
    assert available_memory_bytes(system(tmp_path)) == SYSTEM
    more = MEMINFO.replace("Mapped:           700000", "Mapped:           700001")
    assert available_memory_bytes(system(tmp_path, files={"proc/meminfo": more})) == SYSTEM - 1024
    full = MEMINFO.replace("MemAvailable:    3000000", "MemAvailable:     600000")
    assert available_memory_bytes(system(tmp_path, files={"proc/meminfo": full})) == 0


V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "files", "expected"),
    [
        # version 2: the group itself, one above it, none limited, and what its page cache gives back
        ("0::/a/b\n", MOUNT_2.format(top="/"), within(f"{V2}/a/b", group_2(str(900 * MIB), 200 * MIB)), 700 * MIB),
        (
            "0::/a/b\n", MOUNT_2.format(top="/"),
            within(f"{V2}/a/b", group_2("max")) | within(f"{V2}/a", group_2(str(500 * MIB), 100 * MIB)), 400 * MIB,
        ),
        (
            "0::/a/b\n", MOUNT_2.format(top="/"),
            within(f"{V2}/a/b", group_2(str(300 * MIB), MIB)) | within(f"{V2}/a", group_2(str(500 * MIB), 0)),
            299 * MIB,
        ),
        ("0::/a/b\n", MOUNT_2.format(top="/"), within(f"{V2}/a/b", group_2("max", 200 * MIB)), SYSTEM),
        (
            "0::/a\n", MOUNT_2.format(top="/"),
            within(f"{V2}/a", group_2(str(900 * MIB), 800 * MIB, 300 * MIB, 50 * MIB, 40 * MIB)), 410 * MIB,
        ),
        ("0::/a\n", MOUNT_2.format(top="/"), within(f"{V2}/a", group_2(str(MIB), 2 * MIB)), 0),
        # version 1, which may be mounted beside version 2; its "no limit" is a number
        (
            "4:memory:/x/y\n3:cpu,cpuacct:/z\n0::/\n", OTHER_1 + MOUNT_1.format(top="/"),
            within(f"{V1}/x/y", group_1(700 * MIB, 650 * MIB, 60 * MIB, 20 * MIB, 30 * MIB)), 100 * MIB,
        ),
        (
            "4:memory:/x/y\n", MOUNT_1.format(top="/"),
            within(f"{V1}/x/y", group_1(9223372036854771712)) | within(f"{V1}/x", group_1(64 * MIB)), 64 * MIB,
        ),
        # a container: its own group is mounted as the top, whether it sees the path from outside or not
        ("0::/\n", MOUNT_2.format(top="/"), within(V2, group_2(str(80 * MIB), 10 * MIB)), 70 * MIB),
        ("4:memory:/docker/7f\n", MOUNT_1.format(top="/docker/7f"), within(V1, group_1(80 * MIB)), 80 * MIB),
        ("4:memory:/docker/7f\n", MOUNT_1.format(top="/elsewhere"), within(V1, group_1(80 * MIB)), 80 * MIB),
        # a limit above what the machine has left; no files at all
        ("0::/a\n", MOUNT_2.format(top="/"), within(f"{V2}/a", group_2(str(10**13))), SYSTEM),
        ("0::/a\n", MOUNT_2.format(top="/"), {}, SYSTEM),
    ],
)  # fmt: skip
def test_a_control_group_that_leaves_less_counts(
    tmp_path: Path, cgroup: str, mountinfo: str, files: dict[str, str], expected: int
) -> None:
    assert available_memory_bytes(system(tmp_path, cgroup, mountinfo, files)) == expected


def test_where_there_is_no_proc_the_system_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 77}))
    assert available_memory_bytes(tmp_path) == 77


def test_a_budget_is_what_there_is_and_most_of_what_is_left() -> None:
    budget, total = memory_budget_bytes(), psutil.virtual_memory().total
    assert rss_bytes() < budget < total
