"""estream simulate: a table that says how sure it is, the same as JSON, and one sentence for every error."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from estream_lab.routing import Routes, synthetic_routes, write_routes
from estream_lab.simulate.device import FOLDER
from estream_lab.streaming import Store
from tests.stores import SPEC, synthetic_store

from .conftest import Run

SHORT = ("--tokens", "32")


def simulated(estream: Run, *arguments: str) -> dict[str, object]:
    status, out, _ = estream("simulate", *arguments, "--json")
    assert status == 0
    found: dict[str, object] = json.loads(out)
    return found


def test_the_table_says_what_was_simulated_and_that_it_is_a_fit(estream: Run) -> None:
    status, out, _ = estream("simulate", "--banks", "2")
    assert status == 0
    for part in (
        "simulated (fitted profile, scope OLMoE at 1,024 tokens, G=8)",
        "OLMoE-1B-7B, routes synthetic (alpha 3.5, seed 0)",
        "early: G=8 B=2 Q=2", "1024 in 1.", "arena           56623104 bytes", "storage idle", "compute idle",
    ):  # fmt: skip
        assert part in out


def test_every_option_reaches_the_simulation(estream: Run) -> None:
    row = simulated(
        estream, *SHORT, "--family", "qwen3", "--group-size", "16", "--banks", "4", "--queue-depth", "1",
        "--schedule", "after-routing", "--alpha", "9", "--seed", "7", "--device", str(FOLDER / "phone.json"),
    )  # fmt: skip
    expected = {
        "model": "Qwen3-30B-A3B", "tokens": 32, "group_size": 16, "banks": 4, "queue_depth": 1, "lane": "simulator",
        "schedule": "after-routing", "routes": "synthetic (alpha 9, seed 7)", "device": "phone", "carry_over": False,
    }  # fmt: skip
    assert row | expected == row
    assert simulated(estream, *SHORT, "--carry-over")["carry_over"] is True


def test_the_same_command_prints_the_same_bytes(estream: Run) -> None:
    assert estream("simulate", *SHORT, "--json") == estream("simulate", *SHORT, "--json")


def test_defaults_fit_a_model_of_few_experts(estream: Run) -> None:
    row = simulated(estream, *SHORT, "--family", "mixtral")
    assert (row["group_size"], row["banks"], row["queue_depth"]) == (8, 1, 1)


def test_a_stores_model_and_its_order_of_experts(estream: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes to experts 0 and 9 alone: two groups by id, one where the store has them side by side."""
    path = synthetic_store(tmp_path)
    routes = Routes.from_topk([[0, 9]] * 4, np.ones((4, 2), np.float32))
    write_routes(tmp_path / "r.csv", dict.fromkeys(range(SPEC.layers), routes))
    asked = (str(path), "--routes", str(tmp_path / "r.csv"), "--group-size", "2", "--schedule", "on-demand")
    row = simulated(estream, *asked)
    group = 2 * Store(path).stride
    assert (row["model"], row["tokens"], row["routes"]) == (path.name, 4, str(tmp_path / "r.csv"))
    assert row["bytes_read"] == SPEC.layers * 2 * group

    class SideBySide(Store):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            order = np.array([0, 9, *range(1, 9)], np.int32)
            self.layers = tuple(replace(layer, order=order) for layer in self.layers)

    monkeypatch.setattr("estream_lab.cli.simulate.Store", SideBySide)
    assert simulated(estream, *asked)["bytes_read"] == SPEC.layers * group


def test_the_trace_is_written(estream: Run, tmp_path: Path) -> None:
    chrome, perfetto = tmp_path / "t.json", tmp_path / "t.perfetto-trace"
    assert f"written         {chrome}" in estream("simulate", *SHORT, "--trace", str(chrome))[1]
    assert estream("simulate", *SHORT, "--trace", str(perfetto))[0] == 0
    document = json.loads(chrome.read_text())
    assert document["otherData"]["provenance"]["kind"].startswith("simulated (fitted profile")
    assert perfetto.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--banks", "9"), "a layer has 8 groups of 8, so 9 banks are never all used: choose 8 or fewer"),
        (("--group-size", "65"), "don't make groups of 65: choose 1 to 64"),
        (("--device", "telephone"), "there is no device profile 'telephone'"),
        (("--device", "none.json"), "can't read the device profile none.json"),
        (("--schedule", "on-demand", "--carry-over"), "only the early schedule can be carried over"),
        (("--alpha", "0"), "synthetic routes need an alpha above 0"),
        (("some.estream", "--family", "olmoe"), "give a store or --family, not both"),
        (("--routes", "r.csv", "--tokens", "3"), "--tokens and --alpha are of synthetic routes"),
        (("gone.estream",), "gone.estream"),
        (("--trace", "no/where"), "Cannot write no/where"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(estream: Run, arguments: tuple[str, ...], sentence: str) -> None:
    status, out, error = estream("simulate", *arguments, "--json")
    assert status == 1
    assert sentence in error and sentence in json.loads(out)["error"]
    assert error.count("\n") == 1


def test_routes_of_another_model_are_refused(estream: Run, tmp_path: Path) -> None:
    write_routes(tmp_path / "r.csv", {0: synthetic_routes(8, 64, 8, alpha=3.0, seed=0)})
    status, _, error = estream("simulate", "--routes", str(tmp_path / "r.csv"))
    assert status == 1 and "1 layers of 64 experts, and OLMoE-1B-7B has 16 sparse layers of 64" in error


def test_a_trace_never_goes_where_the_command_reads(estream: Run, tmp_path: Path) -> None:
    profile = tmp_path / "own.json"
    profile.write_bytes((FOLDER / "phone.json").read_bytes())
    status, _, error = estream("simulate", *SHORT, "--device", str(profile), "--trace", str(profile))
    assert status == 1 and "which --device is read from" in error
    assert profile.read_bytes() == (FOLDER / "phone.json").read_bytes()
