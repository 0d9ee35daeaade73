"""A lane fails on whatever was not run to its end, and on fewer tests than were committed."""

import re
from pathlib import Path

import pytest
import strict

PASSING = "def test_one(): pass\ndef test_two(): pass\n"


def lane(pytester: pytest.Pytester, source: str, *arguments: str, count: int = 2) -> pytest.RunResult:
    """Run `source` as the lane `unit` whose committed count is `count`."""
    counts = pytester.makefile(".toml", counts=f"# kept\n[tests]\nfull = 7\nunit = {count}\n")
    pytester.makepyfile(source)
    return pytester.runpytest("-p", "strict", "--lane", "unit", "--lane-counts", str(counts), *arguments)


def test_a_lane_that_runs_all_its_tests_passes(pytester: pytest.Pytester) -> None:
    result = lane(pytester, PASSING)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["lane unit: 2 tests passed"])


@pytest.mark.parametrize(
    ("planted", "arguments", "told"),
    [
        ("import pytest\n@pytest.mark.skip\ndef test_three(): pass\n", [], "skipped: *test_three"),
        ("import pytest\ndef test_three(): pytest.skip('no phone')\n", [], "skipped: *test_three"),
        ("import pytest\npytest.importorskip('no_such_module')\n", [], "skipped: *"),
        ("import pytest\n@pytest.mark.xfail\ndef test_three(): assert False\n", [], "xfail: *test_three"),
        ("import pytest\n@pytest.mark.xfail\ndef test_three(): pass\n", [], "xfail: *test_three"),
        ("import pytest\n@pytest.mark.xfail(run=False)\ndef test_three(): pass\n", [], "xfail: *test_three"),
        ("def test_three(): pass\n", ["-k", "not three"], "deselected: *test_three"),
        ("def test_three(): pass\n", ["--deselect", "test_planted.py::test_three"], "deselected: *test_three"),
    ],
)
def test_what_was_not_run_fails_the_lane(
    pytester: pytest.Pytester, planted: str, arguments: list[str], told: str
) -> None:
    pytester.makepyfile(test_planted=planted)
    result = lane(pytester, PASSING, *arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*lane unit: 1 faults*", told])


def test_fewer_tests_than_committed_fail_the_lane(pytester: pytest.Pytester) -> None:
    result = lane(pytester, PASSING, count=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["2 tests passed, but *counts.toml holds 3 for lane unit: *make counts*"])


def test_more_tests_than_committed_pass(pytester: pytest.Pytester) -> None:
    assert lane(pytester, PASSING, count=1).ret == 0


def test_a_lane_without_a_count_fails(pytester: pytest.Pytester) -> None:
    counts = pytester.makefile(".toml", counts="[tests]\n")
    pytester.makepyfile(PASSING)
    assert pytester.runpytest("-p", "strict", "--lane", "unit", "--lane-counts", str(counts)).ret == 1


def test_an_empty_lane_fails(pytester: pytest.Pytester) -> None:
    assert lane(pytester, "", count=0).ret != 0


def test_a_failing_test_keeps_its_exit_status(pytester: pytest.Pytester) -> None:
    assert lane(pytester, "def test_one(): assert False\n").ret == pytest.ExitCode.TESTS_FAILED


def test_skips_are_no_fault_outside_a_lane(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.skip\ndef test_one(): pass\ndef test_two(): pass\n")
    assert pytester.runpytest("-p", "strict").ret == 0


def test_writing_a_count_keeps_the_other_lanes_and_the_comment(pytester: pytest.Pytester) -> None:
    assert lane(pytester, PASSING, "--write-count", count=9).ret == 0
    assert Path("counts.toml").read_text() == "# kept\n[tests]\nfull = 7\nunit = 2\n"


def test_a_failing_lane_writes_no_count(pytester: pytest.Pytester) -> None:
    assert lane(pytester, "def test_one(): assert False\n", "--write-count", count=9).ret != 0
    assert strict.read_counts(Path("counts.toml"))["unit"] == 9


def test_a_lane_with_a_skip_writes_no_count(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_planted="import pytest\n@pytest.mark.skip\ndef test_three(): pass\n")
    assert lane(pytester, PASSING, "--write-count", count=9).ret != 0
    assert strict.read_counts(Path("counts.toml"))["unit"] == 9


def test_every_lane_of_the_makefile_has_a_committed_count() -> None:
    root = strict.COUNTS.parent.parent
    lanes = set(re.findall(r"^lane-(\w+):", (root / "Makefile").read_text(), flags=re.MULTILINE))
    assert lanes == set(strict.read_counts(strict.COUNTS))
    assert lanes == {"unit", *strict.SEPARATE}
