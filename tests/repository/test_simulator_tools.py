"""The tables of the simulator's tools."""

import argparse
import re
from pathlib import Path

from estream_lab.simulate.device import load_device
from estream_lab.simulate.fit import points
from tests.stores import synthetic_store
from tools import fit_phone, replay_distance


def test_the_table_of_the_fit_has_every_point_with_its_distance_and_the_recurrences() -> None:
    lines = [line for line in fit_phone.agreement(load_device("phone"), fast=True) if line.startswith("|")]
    assert len(lines) == 2 + len(points())
    two = lines[2].strip("| ").split(" | ")
    assert two[0] == "B=2 Q=2" and two[1] == "1.075 s"
    assert re.fullmatch(r"\+2\.\d\d %", two[3]) and re.fullmatch(r"\+1\d\.\d\d %", two[-1])
    assert lines[-1].startswith("| storage idle, early | 9.05 % | 9.")


def test_the_table_of_parameters_says_what_is_fitted() -> None:
    lines = fit_phone.parameters(load_device("phone"))
    assert sum(line.endswith("| fitted |") for line in lines) == 5
    assert lines[-2].startswith("T^ne 10.")


def test_replays_are_printed_for_each_schedule(tmp_path: Path) -> None:
    options = argparse.Namespace(tokens=16, group_size=2, banks=2, queue_depth=2, bandwidth=[8_000_000])
    lines = list(replay_distance.rows(options, synthetic_store(tmp_path)))
    assert [line.split(" | ")[1] for line in lines] == ["on-demand", "after-routing", "early", "early, carried over"]
    assert all(re.search(r"\| 8 MB/s \|.* ms \| [+-][\d.]+ % \| [+-][\d.]+ % \|$", line) for line in lines)
