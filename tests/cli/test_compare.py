"""estream compare: a row for each contestant, the same as JSON, and one sentence for every error."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.cli.compare import RIVAL_OPTIONS
from estream_lab.experts.order import ExpertOrder
from estream_lab.machine import processor
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.routing import Routes, synthetic_routes, write_routes
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack_synthetic
from tests.stores import SPEC

from .conftest import Run

SHORT = ("--tokens", "64", "--memory-budget", "1GiB")


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


def test_a_budget_for_nobody_is_a_sentence_that_names_the_least(estream: Run) -> None:
    status, out, error = estream("compare", "--tokens", "64", "--memory-budget", "100MiB")
    assert (status, out) == (1, "") and error.count("\n") == 1
    found = re.search(r"nothing fits a budget of 104857600 bytes, the least is (\d+) for .*--over-budget", error)
    assert found is not None
    least = int(found[1])
    assert estream("compare", "--tokens", "64", "--memory-budget", f"{least}")[0] == 0
    assert estream("compare", "--tokens", "64", "--memory-budget", f"{least - 1}")[0] == 1


def test_a_budget_for_some_refuses_the_others(estream: Run) -> None:
    status, out, _ = estream("compare", "--tokens", "64", "--memory-budget", "850MiB")
    assert status == 0 and 0 < out.count("refused  ") < 12


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


STORE_BUDGET = ("--memory-budget", "1GiB")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With experts 0 and 9 side by side."""
    path = tmp_path / "own.estream"
    places = np.array([0, 9, *range(1, 9)], np.int32)
    order = ExpertOrder("made up", (places,) * SPEC.layers, "nothing", 0, "0" * 16)
    pack_synthetic(SyntheticSource(SPEC), path, order=order, progress=False)
    monkeypatch.chdir(tmp_path)
    return path


def test_a_store_is_compared_on_this_computer_as_its_profile_has_it(estream: Run, store: Path) -> None:
    measured = ("--tokens", "30", "--rounds", "1", "--read-bandwidth", "50MB/s", "-o", "p.json")
    assert estream("profile", str(store), *measured)[0] == 0
    status, out, _ = estream("compare", str(store), "--profile", "p.json", *STORE_BUDGET, "--json")
    assert status == 0
    found = json.loads(out)
    assert found["kind"] == "simulated (fitted profile, scope own.estream at 30 tokens)"
    assert found["machine"] == f"{processor()}, reads limited to 50 MB/s (declared)"
    assert (found["model"], found["tokens"]) == ("own.estream", 30)
    assert estream("configure", str(store), "--profile", "p.json", *STORE_BUDGET)[0] == 0
    assert json.loads(estream("compare", str(store), *STORE_BUDGET, "--json")[1]) == found  # that of the configuration
    longer = json.loads(estream("compare", str(store), "--tokens", "31", *STORE_BUDGET, "--json")[1])
    assert longer["kind"] == "simulated (fitted profile, outside its scope own.estream at 30 tokens)"
    phone = json.loads(estream("compare", str(store), "--device", "phone", *SHORT, "--json")[1])
    assert (phone["model"], phone["tokens"], phone["device"]) == ("own.estream", 64, "phone")


def test_groups_of_a_store_are_of_neighbours_in_its_order(estream: Run, store: Path) -> None:
    """Routes to experts 0 and 9 alone: one group is read in each layer."""
    routes = Routes.from_topk([[0, 9]] * 4, np.ones((4, 2), np.float32))
    write_routes(Path("r.csv"), dict.fromkeys(range(SPEC.layers), routes))
    command = ("compare", str(store), "--device", "phone", "--routes", "r.csv", *STORE_BUDGET, "--json")
    found = json.loads(estream(*command)[1])
    size = found["plans"][0]["settings"]["group_size"]
    assert contestants(found)["EStream on-demand"]["bytes_read"] == SPEC.layers * size * Store(store).stride


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--profile", "p.json"), "--profile is of a store"),
        (("STORE", "--family", "olmoe"), "give a store or --family, not both"),
        (("STORE", "--device", "phone", "--profile", "p.json"), "give --device or --profile, not both"),
        (("STORE",), "has no configuration whose profile could serve"),
        (("STORE", "--profile", "none.json"), "can't read the profile none.json"),
    ],
)
def test_a_store_that_cannot_be_compared_is_one_sentence(
    estream: Run, store: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    given = [str(store) if part == "STORE" else part for part in arguments]
    status, _, error = estream("compare", *given, *STORE_BUDGET)
    assert status == 1 and sentence in error and error.count("\n") == 1
