"""estream bench pairs: the table and the JSON tell the same, call it simulated, and seeds add what they should."""

import json
from dataclasses import replace

import pytest

from estream_lab.cli import main
from estream_lab.cli.bench import pairs as command
from estream_lab.simulate import MODELS
from estream_lab.tuning import pairs


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The four models with a layer each, and a seed for each model."""
    monkeypatch.setattr(pairs, "SHAPES", {name: replace(MODELS[name], layers=1) for name in pairs.FAMILIES})
    monkeypatch.setattr(command, "SEEDS", {"none": range(0), "development": range(4)})


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["bench", "pairs", *arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_twelve_pairs_are_told_with_what_both_models_chose(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys)
    assert found == told(capsys)
    assert str(found["kind"]).startswith("simulated (fitted profile") and found["configurations"] == 184
    rows = found["pairs"]
    assert isinstance(rows, list) and len(rows) == 12 and found["seeds"] == []
    for row in rows:
        for each in row["choices"].values():
            assert each["peak_bytes"] <= row["budget_bytes"]
            assert each["regret"] == each["seconds"] / row["fastest_seconds"] - 1 >= 0
    assert [(row["family"], row["budget"]) for row in rows[:4]] == [
        ("lfm2", "low"), ("lfm2", "medium"), ("lfm2", "high"), ("olmoe", "low"),
    ]  # fmt: skip


def test_people_see_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys)
    assert main(["bench", "pairs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == command.table(found) and lines[0].startswith("Simulated (fitted profile, fitted to OLMoE at 1,024")
    row = found["pairs"][1]  # type: ignore[index]
    literal = row["choices"]["literal"]
    place = "{group_size}, {banks}, {queue_depth}".format(**literal["chosen"])
    assert lines[5].startswith(f"| LFM2-8B-A1B | medium | {row['budget_bytes']} | {row['feasible']} of 25 | ")
    assert f" | {place} | {100 * literal['regret']:.2f} % | " in lines[5]


def test_seeds_add_noise_and_other_devices(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "--seeds", "development")
    rows = found["summaries"]
    assert isinstance(rows, list)
    counts = {(row["devices"], row["noise"], row["model"]): row["choices"] for row in rows}
    assert found["seeds"] == [0, 3]
    assert counts["phone", False, "literal"] == counts["phone", False, "shared"] == 12
    assert counts["phone", True, "shared"] == 4 * 12
    assert counts["4 drawn", False, "literal, reads share"] == counts["4 drawn", True, "literal"] == 4 * 3
    assert rows[: len(pairs.TERMS)] == told(capsys)["summaries"]


def test_an_unknown_device_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "pairs", "--device", "toaster"]) == 1
    assert "there is no device profile 'toaster'" in capsys.readouterr().err
