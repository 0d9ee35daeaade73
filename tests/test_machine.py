"""Memory figures of this process."""

import sys

import numpy as np

from estream_lab.machine import available_cpus, peak_rss_bytes, processor, reset_peak_rss, rss_bytes


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
