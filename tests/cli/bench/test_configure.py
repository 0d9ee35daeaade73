"""estream bench configure: what is weighed, and that its service times are called made up."""

import json

import pytest

from estream_lab.cli import main
from estream_lab.tuning import speed


def test_the_grids_are_those_of_the_paper_and_the_times_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "configure", "--rounds", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    own, many = found["rows"]
    assert (own["configurations"], own["layers"], own["groups"]) == (16 + 8 + 4, 48, 16)
    assert (many["configurations"], many["layers"], many["groups"]) == (53, 48, 128)
    assert {key: found[key] for key in ("configurations", "layers", "groups", "seconds_median")}.items() <= own.items()
    assert found["service_times"] == "made up, seed 0" and (own["gate_seconds"], many["gate_seconds"]) == (
        0.15e-3,
        1e-3,
    )
    for row in found["rows"]:
        assert 0 < row["seconds_least"] <= row["seconds_median"] <= row["seconds_most"]
        assert row["within_gate"] == (row["seconds_median"] <= row["gate_seconds"])


def test_people_see_the_gates(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        speed, "seconds_of", lambda case, rounds: [2 * case.gate_seconds if case.groups == 16 else 0.5e-3]
    )
    assert main(["bench", "configure"]) == 0
    out = capsys.readouterr().out
    assert "measured on" in out and "made up (seed 0)" in out and "medians of 200 selections" in out
    assert "28 configurations, 48 layers of 16 groups: 0.3000 ms (0.3000 to 0.3000), above 0.15 ms" in out
    assert "53 configurations, 48 layers of 128 groups: 0.5000 ms" in out and "within 1.00 ms" in out


def test_an_interrupt_is_one_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(speed, "seconds_of", stop)
    assert main(["bench", "configure"]) == 130
    assert capsys.readouterr().err == "estream: stopped: no file was changed\n"


def test_every_selection_is_the_same_from_the_same_seed() -> None:
    first, again = speed.cases(), speed.cases()
    for one, other in zip(first, again, strict=True):
        chosen = [speed.best(one.candidates, depth) for depth in one.depths]
        assert chosen == [speed.best(other.candidates, depth) for depth in other.depths]
        assert len({choice.pipe_ns for choice in chosen}) == len(one.depths)  # and depths differ
