"""This computer as the system describes it: processor, processors, and the memory that this process has."""

import ctypes
import os
import platform
import resource
import sys
from pathlib import Path

import psutil


def _status(key: str) -> int | None:
    """A line of /proc/self/status in bytes, None where there is no such file or line."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return None


def reset_peak_rss() -> bool:
    """Start a new high-water mark of the resident set (Linux); False where only the process's own is known."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_rss_bytes() -> int:
    """Highest resident set in bytes since `reset_peak_rss`, else since the process started."""
    peak = _status("VmHWM")
    if peak is not None:
        return peak
    maxrss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return maxrss if sys.platform == "darwin" else maxrss * 1024


def rss_bytes() -> int:
    """Resident set in bytes now."""
    current = _status("VmRSS")
    return current if current is not None else peak_rss_bytes()


def release_free_memory() -> None:
    """Give memory that the allocator keeps for later back to the system (glibc); elsewhere it decides by itself."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def available_memory_bytes(root: Path = Path("/")) -> int:
    """What this process can still take, in bytes, without swapping or taking anything from others.

    Free memory and page cache, but no file page that some process has mapped: the system counts these as available,
    and evicting them stalls whoever runs from them (or, on a phone, ends the app). Where a memory control group of this
    process leaves less, that counts (Linux kernel documentation: filesystems/proc, cgroup-v1/memory, cgroup-v2).

    Args:
        root: where /proc and /sys are looked for.
    """
    try:
        fields = _fields(root / "proc/meminfo", ":")
        system = 1024 * (fields["MemAvailable"] - fields["Mapped"])
    except (OSError, KeyError, ValueError):
        system = int(psutil.virtual_memory().available)
    return max(0, min([system, *(_group_available(group) for group in _memory_groups(root))]))


def memory_budget_bytes() -> int:
    """What this process may have resident in all: what it has, and 31/32 of what it can still take.

    The rest is for page tables and whatever else a control group counts beside resident pages.
    """
    available = available_memory_bytes()
    return rss_bytes() + available - available // 32


def _memory_groups(root: Path) -> list[Path]:
    """Folders of the memory control groups that hold this process, from its own up to the topmost that is visible."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = [line.split() for line in (root / "proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    paths = {tuple(names.split(",")): path for _, names, path in (line.split(":", 2) for line in lines)}
    folders = []
    for fields in mounts:
        at = fields.index("-")
        kind, options = fields[at + 1], fields[at + 3].split(",")
        for names, path in paths.items():
            if (kind == "cgroup2" and names == ("",)) or (
                kind == "cgroup" and "memory" in names and "memory" in options
            ):
                folders += _upwards(root / fields[4].lstrip("/"), fields[3], path)
    return folders


def _upwards(mount: Path, top: str, path: str) -> list[Path]:
    """The folder of group ``path`` and those above it, where ``top`` is what of the hierarchy is mounted."""
    try:
        below = Path(path).relative_to(top)
    except ValueError:  # a container that sees its own group as the top, and its path from outside
        below = Path()
    folder = mount / below
    return [folder, *(mount / part for part in below.parents)] if below.parts else [folder]


def _group_available(group: Path) -> int:
    """What a memory control group still takes, its unmapped page cache counted as free; endless without a limit."""
    for limit, usage, prefix, mapped in (
        ("memory.max", "memory.current", "", "file_mapped"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_", "total_mapped_file"),
    ):
        try:
            most = (group / limit).read_text(encoding="ascii").strip()
            if most == "max":
                return sys.maxsize
            stat = _fields(group / "memory.stat", " ")
            cache = stat[f"{prefix}inactive_file"] + stat[f"{prefix}active_file"] - stat[mapped]
            return int(most) - int((group / usage).read_text(encoding="ascii")) + max(0, cache)
        except (OSError, KeyError, ValueError):
            continue
    return sys.maxsize


def _fields(path: Path, separator: str) -> dict[str, int]:
    """Lines of a name and a whole number; what follows the number is its unit."""
    lines = (line.split(separator, 1) for line in path.read_text(encoding="ascii").splitlines() if separator in line)
    return {name.strip(): int(value.split()[0]) for name, value in lines}


def available_cpus() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy_seconds() -> float:
    """Seconds that this computer's processors worked since it started, for whomever, and those of its host that it was
    kept waiting for.
    """
    times = psutil.cpu_times()._asdict()  # the time of a guest is counted as its user's, too
    return float(sum(times.get(kind, 0.0) for kind in ("user", "nice", "system", "irq", "softirq", "steal")))


def processor() -> str:
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
