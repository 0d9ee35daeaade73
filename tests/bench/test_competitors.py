"""Competitors work when they are asked to, and end with the bench."""

import time

import psutil
import pytest

from estream_lab.bench.competitors import Competitors


def test_they_work_within_and_are_stopped_otherwise() -> None:
    until = time.monotonic() + 60
    with Competitors(2) as competitors:
        mine = [psutil.Process(number) for number in competitors.processes]
        for _ in range(2):
            while {process.status() for process in mine} != {psutil.STATUS_STOPPED}:
                assert time.monotonic() < until
            before = [process.cpu_times().user for process in mine]
            with competitors.running():
                while any(now.cpu_times().user <= then for now, then in zip(mine, before, strict=True)):
                    assert time.monotonic() < until
    assert not any(process.is_running() for process in mine)


def test_they_are_as_nice_as_we_are() -> None:
    with Competitors(1) as competitors:
        assert psutil.Process(competitors.processes[0]).nice() == psutil.Process().nice()


def test_they_end_with_a_run_that_is_stopped() -> None:
    with pytest.raises(KeyboardInterrupt), Competitors(1) as competitors, competitors.running():
        process = psutil.Process(competitors.processes[0])
        raise KeyboardInterrupt
    assert not process.is_running()
