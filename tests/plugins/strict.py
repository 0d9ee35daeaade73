"""Lanes: `pytest --lane NAME` fails on anything that was not run to its end, and on fewer tests than were committed.

A lane is one run of pytest in CI. With `--lane NAME` the session fails, even if every test that ran passed, when

- a test was skipped, marked xfail (whether it failed or passed) or deselected, or
- fewer tests passed than tests/counts.toml holds for the lane: a file that is no longer collected is noticed.

Without `--lane` nothing changes, but for the folders of other lanes: plain `pytest` leaves them out, naming one runs
it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

COUNTS = Path(__file__).parent.parent / "counts.toml"
SEPARATE = ("boundscheck", "full", "oracle", "peers", "ui")  # folders of tests/ that a lane of their own runs


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --lane, --lane-counts and --write-count."""
    group = parser.getgroup("lanes", "lanes of CI")
    group.addoption("--lane", metavar="NAME", help="run strictly, as this lane of tests/counts.toml")
    group.addoption("--lane-counts", metavar="FILE", default=str(COUNTS), help="the committed counts")
    group.addoption("--write-count", action="store_true", help="record the number of passed tests as the lane's count")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the session if it runs as a lane."""
    lane = config.getoption("--lane")
    if lane is not None:
        config.pluginmanager.register(Lane(lane, Path(config.getoption("--lane-counts")), config), "lane")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders of other lanes, unless they were named on the command line."""
    named = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    for folder in (COUNTS.parent / name for name in SEPARATE):
        if collection_path == folder and not any(path.is_relative_to(folder) for path in named):
            return True
    return None


class Lane:
    """Counts what a session ran and what it did not; decides its exit status."""

    def __init__(self, name: str, counts: Path, config: pytest.Config) -> None:
        self.name = name
        self.counts = counts
        self.config = config
        self.passed = 0
        self.faults: list[str] = []

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Each deselected test is a fault."""
        self.faults += [f"deselected: {item.nodeid}" for item in items]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A whole file may be skipped while it is collected (pytest.importorskip)."""
        if report.skipped:
            self.faults.append(f"skipped: {report.nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that passed its call; a skip or xfail in any phase is a fault."""
        if hasattr(report, "wasxfail"):
            self.faults.append(f"xfail: {report.nodeid}")
        elif report.skipped:
            self.faults.append(f"skipped: {report.nodeid}")
        elif report.when == "call" and report.passed:
            self.passed += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Compare with the committed count, or write it; turn a green session with faults red."""
        if exitstatus != pytest.ExitCode.OK:
            return
        if self.config.getoption("--write-count") and not self.faults:
            write_count(self.counts, self.name, self.passed)
        committed = read_counts(self.counts).get(self.name)
        if committed is None:
            self.faults.append(f"{self.counts.name} holds no count of lane {self.name}: record it with `make counts`")
        elif self.passed < committed:
            self.faults.append(
                f"{self.passed} tests passed, but {self.counts.name} holds {committed} for lane {self.name}: "
                "bring the missing ones back, or, if they were removed on purpose, run `make counts`"
            )
        if self.faults:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Tell each fault, or how many tests a green lane passed."""
        if self.faults:
            terminalreporter.section(f"lane {self.name}: {len(self.faults)} faults", red=True)
            for fault in self.faults:
                terminalreporter.line(fault, red=True)
        elif exitstatus == pytest.ExitCode.OK:
            terminalreporter.line(f"lane {self.name}: {self.passed} tests passed")


def read_counts(path: Path) -> dict[str, int]:
    """The committed number of tests of each lane."""
    counts: dict[str, int] = tomllib.loads(path.read_text())["tests"]
    return counts


def write_count(path: Path, lane: str, passed: int) -> None:
    """Record `passed` as the count of `lane`; comments at the top of the file stay."""
    counts = read_counts(path) | {lane: passed}
    head = path.read_text().split("[tests]")[0]
    path.write_text(head + "[tests]\n" + "".join(f"{name} = {counts[name]}\n" for name in sorted(counts)))
