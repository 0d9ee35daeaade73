"""A memory control group around one command: its peak counts page cache too, which a resident set does not.

Versions 1 and 2 of Linux's memory controller (kernel documentation, admin-guide/cgroup-v1/memory and cgroup-v2).
"""

import os
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from estream_lab.errors import EStreamError


@dataclass(frozen=True)
class GroupRun:
    """What a command did inside its group.

    Attributes:
        status: its exit status; negative for a signal (-9: the limit killed it).
        stdout, stderr: its output.
        peak_memory_bytes: the group's high-water mark: anonymous memory, page cache and kernel memory.
    """

    status: int
    stdout: str
    stderr: str
    peak_memory_bytes: int


@dataclass(frozen=True)
class _Controller:
    """Where groups are made, and what the files of this version are called."""

    root: Path
    limit: str
    peak: str


def _controller() -> _Controller:
    one, two = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    if (one / "memory.limit_in_bytes").exists():
        return _Controller(one, "memory.limit_in_bytes", "memory.max_usage_in_bytes")
    if (two / "cgroup.controllers").exists() and "memory" in (two / "cgroup.controllers").read_text().split():
        return _Controller(two, "memory.max", "memory.peak")
    raise EStreamError(
        "this system has no memory control groups (Linux, version 1 or 2), so no memory limit can be set"
    )


def _remove_left_behind(root: Path) -> None:
    """Remove the empty groups of runs that were killed: nobody else would, and each costs the kernel memory."""
    for group in root.glob("estream-*-*"):
        process = group.name.split("-")[1]
        if process.isdigit() and not Path(f"/proc/{process}").exists():
            with suppress(OSError):  # what still runs inside keeps it, and another run may be first
                group.rmdir()


def run_in_group(command: Sequence[str], limit_bytes: int | None = None, timeout: float = 600.0) -> GroupRun:
    """Run ``command`` in a fresh memory group, optionally limited.

    Args:
        command: program and arguments; it starts as a member of the group, so that everything it touches is counted.
        limit_bytes: the kernel reclaims page cache, then kills, beyond this.
        timeout: in seconds.

    Raises:
        EStreamError: no memory controller, no right to make or limit a group, or a command that takes too long.
    """
    controller = _controller()
    _remove_left_behind(controller.root)
    group = controller.root / f"estream-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        if (controller.root / "cgroup.subtree_control").exists():
            (controller.root / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
    except OSError as error:
        raise EStreamError(
            f"can't make a memory control group in {controller.root}: {error.strerror} (root may)"
        ) from error
    try:
        if not (group / controller.peak).exists():
            raise EStreamError(f"this kernel has no {controller.peak}: Linux 5.19 or newer is needed")
        if limit_bytes is not None:
            (group / controller.limit).write_text(str(limit_bytes))
        join = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
        done = subprocess.run(
            ["sh", "-c", join, "sh", *command], capture_output=True, text=True, timeout=timeout, check=False
        )
        peak = int((group / controller.peak).read_text())
    except OSError as error:
        raise EStreamError(f"can't use the memory control group {group}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise EStreamError(f"{command[0]} took more than {timeout:g} s in its memory control group") from error
    finally:
        group.rmdir()
    return GroupRun(done.returncode, done.stdout, done.stderr, peak)
