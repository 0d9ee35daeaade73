"""estream compare: a row for each contestant, the same as JSON, and one sentence for every error."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from estream_lab.cli import main
from estream_lab.cli.compare import RIVAL_OPTIONS
from estream_lab.routing import synthetic_routes, write_routes

Run = Callable[..., tuple[int, str, str]]
SHORT = ("--tokens", "64", "--memory-budget", "1GiB")


@pytest.fixture
def estream(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def compared(estream: Run, *arguments: str) -> dict[str, Any]:
    status, out, _ = estream("compare", *SHORT, *arguments, "--json")
    assert status == 0
    found: dict[str, Any] = json.loads(out)
    return found


def contestants(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["contestant"]: row for row in found["contestants"]}


def test_the_table_has_a_row_for_each_contestant_and_says_what_is_assumed(estream: Run) -> None:
    status, out, _ = estream("compare", *SHORT)
    assert status == 0
    for part in (
        "simulated (fitted profile, outside its scope", "OLMoE-1B-7B, 64 tokens, routes synthetic (alpha 3.5, seed 0)",
        "1073741824 bytes (1024.0 MiB)", "max-plus plan   G=", "roofline plan   G=", "EStream early   ",
        "EStream early, carried over", "expert on demand", "QNN-switch", "hottest first", "chunk padding",
        "all resident needs ", "assumed         device: read_latency 0 ns, group_overhead 0 ns",
        "assumed         QNN-switch: context set-up 16 ms",
    ):  # fmt: skip
        assert part in out
    assert out.count("refused") == 3 and "over the budget" not in out


def test_those_over_the_budget_are_marked(estream: Run) -> None:
    out = estream("compare", *SHORT, "--over-budget")[1]
    assert "refused" not in out
    (resident,) = [line for line in out.splitlines() if line.startswith("all resident")]
    assert resident.endswith("MiB read beforehand, over the budget")


def test_dropped_routes_are_told_in_per_cent(estream: Run) -> None:
    asked = ("--over-budget", "--tiers", "8")
    rows = contestants(compared(estream, *asked))["NPUMoE-like"]["rows"]
    (line,) = [row for row in estream("compare", *SHORT, *asked)[1].splitlines() if row.startswith("NPUMoE-like ")]
    assert rows["dropped"] > 0 and f"{100 * rows['dropped'] / rows['routes']:.2f}%" in line


def test_the_json_has_the_contract_of_every_contestant(estream: Run) -> None:
    found = compared(estream, "--over-budget")
    assert (found["budget_bytes"], found["model"], found["tokens"]) == (2**30, "OLMoE-1B-7B", 64)
    for row in found["contestants"]:
        assert row["kind"].startswith("simulated (fitted profile")
        assert row["seconds"] > 0 and row["over_budget"] == (row["peak_bytes"] > 2**30)
        assert row["rows"]["kept"] + row["rows"]["dropped"] == row["rows"]["routes"] == 16 * 64 * 8
    refused = contestants(compared(estream))["all resident"]
    assert set(refused) == {"contestant", "peak_bytes", "refused"}


def test_the_same_command_prints_the_same_bytes_and_another_seed_others(estream: Run) -> None:
    assert compared(estream) == compared(estream)
    assert compared(estream, "--seed", "1") != compared(estream)


@pytest.mark.parametrize(
    ("arguments", "contestant", "part"),
    [
        (("--context-setup", "0.5"), "QNN-switch", "context set-up 500 ms"),
        (("--context-copies", "3"), "QNN-switch", "3 copies"),
        (("--chunk", "17"), "chunk padding", "chunks of 17 rows"),
        (("--per-prompt-chunk",), "chunk padding", "chunks of 256 tokens"),
        (("--hottest", "group"), "hottest first", "by group"),
        (("--layer-buffers", "3"), "whole layers", "3 buffers"),
        (("--read-pieces", "1"), "whole layers", "in 1 pieces"),
        (("--quantile", "0.25"), "NPUMoE-like", "p=0.25"),
        (("--tiers", "8, 300"), "NPUMoE-like", "tiers 8, 300"),
        (("--graph-size", "3"), "NPUMoE-like", "3 experts a graph"),
        (("--theta", "2.5"), "NPUMoE-like", "theta 2.5"),
        (("--dispatch", "0.0001"), "NPUMoE-like", "dispatch 100 µs"),
        (("--cpu-slowdown", "7"), "NPUMoE-like", "CPU rows 7 times"),
        (("--in-turn",), "NPUMoE-like", "NPU and CPU in turn"),
    ],
)
def test_each_option_reaches_its_contestant(
    estream: Run, arguments: tuple[str, ...], contestant: str, part: str
) -> None:
    row = contestants(compared(estream, "--over-budget", *arguments))[contestant]
    assert part in " ".join([row["settings"], *row["assumed"]])


def test_every_rival_option_has_a_case_above() -> None:
    (mark,) = test_each_option_reaches_its_contestant.pytestmark  # type: ignore[attr-defined]
    assert {case[0][0] for case in mark.args[1]} == {option.flag for option in RIVAL_OPTIONS}


def test_routes_of_a_file_are_taken(estream: Run, tmp_path: Path) -> None:
    layers = {layer: synthetic_routes(5, 64, 8, alpha=3.0, seed=layer) for layer in range(16)}
    write_routes(tmp_path / "r.csv", layers)
    asked = ("--routes", str(tmp_path / "r.csv"), "--memory-budget", "8GiB", "--tiers", "1", "--json")
    found, other = (json.loads(estream("compare", *asked, "--seed", seed)[1]) for seed in ("0", "1"))
    assert (found["tokens"], found["routes"]) == (5, str(tmp_path / "r.csv"))
    lost, differently = (contestants(each)["NPUMoE-like"]["saliency_dropped"] for each in (found, other))
    assert lost > 0 and lost != differently  # made-up norms have the seed too


def test_a_budget_for_nobody_refuses_all(estream: Run) -> None:
    status, out, _ = estream("compare", "--tokens", "64", "--memory-budget", "100MiB")
    assert status == 0 and out.count("refused  ") == 12 and "max-plus plan   G=4 B=1 Q=1: no bank fits" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--quantile", "2"), "NPUMoE-like can't run with a quantile of 2: give 0 to 1"),
        (("--tiers", "64,32"), "tiers of 64, 32 rows: give rising numbers from 1 on"),
        (("--context-setup", "-1"), "QNN-switch can't create contexts in -1 s"),
        (("--alpha", "0"), "synthetic routes need an alpha above 0"),
        (("--seed", "-1"), "a seed of 0 or more"),
        (("--device", "telephone"), "there is no device profile 'telephone'"),
        (("--routes", "r.csv"), "--tokens and --alpha are of synthetic routes"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(estream: Run, arguments: tuple[str, ...], sentence: str) -> None:
    status, out, error = estream("compare", *SHORT, *arguments, "--json")
    assert status == 1
    assert sentence in error and sentence in json.loads(out)["error"]
    assert error.count("\n") == 1
