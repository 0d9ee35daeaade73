"""This computer as the system describes it: processor, processors, and the memory that this process has."""

import os
import platform
import resource
import sys
from pathlib import Path


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


def available_cpus() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
