"""The load of others is what the computer did and the bench did not."""

import os
import subprocess
import sys
import time
from collections import namedtuple
from types import SimpleNamespace

import psutil
import pytest

from estream_lab import machine
from estream_lab.bench import load
from estream_lab.bench.load import OtherLoad


def test_is_the_part_of_busy_time_that_is_nobodys_of_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"wall": 0.0, "busy": 100.0, 1: 5.0, 2: 50.0}
    monkeypatch.setattr(time, "perf_counter", lambda: clock["wall"])
    monkeypatch.setattr(load, "busy_seconds", lambda: clock["busy"])
    monkeypatch.setattr(os, "cpu_count", lambda: 4)

    def process(number: int = 1) -> SimpleNamespace:
        return SimpleNamespace(cpu_times=lambda: SimpleNamespace(user=clock[number], system=1.0))

    monkeypatch.setattr(psutil, "Process", process)
    watch = OtherLoad([2])
    clock.update({"wall": 10.0, "busy": 120.0, 1: 10.0, 2: 61.0})
    assert watch.lap() == pytest.approx((20 - 5 - 11) / 40)
    clock.update({"wall": 11.0, "busy": 120.5, 1: 11.0})  # the system's count is coarser than ours
    assert watch.lap() == 0


def test_busy_time_is_everything_but_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    times = namedtuple("times", "user nice system idle iowait irq softirq steal guest guest_nice")
    monkeypatch.setattr(psutil, "cpu_times", lambda: times(1, 2, 4, 800, 1600, 8, 16, 32, 1, 2))
    assert machine.busy_seconds() == 63
    elsewhere = namedtuple("elsewhere", "user nice system idle")
    monkeypatch.setattr(psutil, "cpu_times", lambda: elsewhere(1, 2, 4, 800))
    assert machine.busy_seconds() == 7


def test_this_computer_tells_what_another_process_takes() -> None:
    watch = OtherLoad()
    code = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert 0 < watch.lap() <= 1
