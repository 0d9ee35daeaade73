"""A figure that leaves its baseline is named: faults planted in what was recorded."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.evaluate.baseline import check, figures

BASELINE = Path(__file__).parents[2] / "data" / "baselines" / "numerics_attribution.json"
RECORDED: dict[str, Any] = json.loads(BASELINE.read_text(encoding="utf-8"))
STEP = "decode to fp16"


@pytest.fixture
def found() -> dict[str, Any]:
    return copy.deepcopy(RECORDED["full"])


def row(found: dict[str, Any], name: str = STEP, router: str = "as trained") -> dict[str, Any]:
    return next(each for each in found["routers"][router]["rows"] if each["name"] == name)


def scale(row: dict[str, Any], key: str, factor: float) -> None:
    row[key] *= factor


PLANTED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "layer_flips": lambda f: row(f)["layer_flips"].__setitem__(2, row(f)["layer_flips"][2] + 2),
    "layer_error": lambda f: row(f).update(layer_error=[0.0 for _ in row(f)["layer_error"]]),
    "flip_share": lambda f: scale(row(f, "Q4_0 weights"), "flip_share", 1.01),
    "logits_error": lambda f: scale(row(f), "logits_error", 1.1),
    "divergence_bits": lambda f: scale(row(f), "divergence_bits", 1.2),
    "delta_bits_per_byte": lambda f: scale(row(f, "SiLU table"), "delta_bits_per_byte", 0),
    "standard_error": lambda f: scale(row(f), "standard_error", 2),
    "on is quantise, operands, its": lambda f: row(f).update(on=["quantise", "operands"]),
    "reference is , its": lambda f: row(f).update(reference=[]),
    "bits_per_byte": lambda f: f["routers"]["renormalised"].update(bits_per_byte=1.8),
    "k = 8/alone/scatter reversed/layer_error": lambda f: f["orders"][1]["rows"][1].update(layer_error=[0.0] * 4),
    "layer 3 alone/SiLU table/divergence_bits": lambda f: scale(f["layers"]["SiLU table"][3], "divergence_bits", 2),
    "residual 2.14 renormalised/the device/perplexity_percent": lambda f: scale(
        f["outliers"][-1]["steps"]["the device"], "perplexity_percent", 1.5
    ),
    "SwiGLU results/beyond": lambda f: f["outliers"][4]["beyond"].update({"SwiGLU results": 0}),
    "outputs/values": lambda f: scale(f["outliers"][0]["values"], "outputs", 2),
    "is gone": lambda f: f["outliers"].pop(),
    "is new": lambda f: f["outliers"].append(f["outliers"][0] | {"log2": 3}),
    "is nan": lambda f: row(f).update(divergence_bits=float("nan")),
}


@pytest.mark.parametrize("named", PLANTED)
def test_a_figure_that_moves_is_named(found: dict[str, Any], named: str) -> None:
    PLANTED[named](found)
    with pytest.raises(EStreamError, match=f"left their baseline: .*{named}"):
        check(found, BASELINE, "full")


@pytest.mark.parametrize("size", ["fast", "full"])
def test_what_was_recorded_is_within_its_baseline(size: str) -> None:
    assert check(RECORDED[size], BASELINE, size) == len(figures(RECORDED[size]))


def test_every_change_of_bits_that_becomes_none_is_told(found: dict[str, Any]) -> None:
    for router, attribution in found["routers"].items():
        for each in attribution["rows"]:
            recorded, each["delta_bits_per_byte"] = each["delta_bits_per_byte"], 0.0
            if recorded == 0:
                assert each["name"] == "scatter reversed"
                continue
            with pytest.raises(EStreamError, match=f"1 of .*{router}/.*/delta_bits_per_byte is 0,"):
                check(found, BASELINE, "full")
            each["delta_bits_per_byte"] = recorded


def elsewhere(found: dict[str, Any]) -> dict[str, Any]:
    """As a computer gives it whose functions round otherwise."""
    found["rounding"] = "another"
    step = row(found)
    step["delta_bits_per_byte"] *= -1
    step["divergence_bits"] *= 1.3
    row(found, "accumulator hmx_v75_g8")["layer_error"][1] *= 3
    return found


def test_a_computer_that_rounds_otherwise_may_differ_as_one_was_seen_to(found: dict[str, Any]) -> None:
    check(elsewhere(found), BASELINE, "full")
    found["rounding"] = RECORDED["full"]["rounding"]
    with pytest.raises(EStreamError, match="3 of .*"):
        check(found, BASELINE, "full")


WIDE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "layer_error": lambda f: row(f).update(layer_error=[0.0 for _ in row(f)["layer_error"]]),
    "logits_error": lambda f: scale(row(f), "logits_error", 1.5),
    "divergence_bits": lambda f: scale(row(f, "accumulator hmx_v75_g8"), "divergence_bits", 0),
    "delta_bits_per_byte": lambda f: scale(row(f, "Q4_0 weights"), "delta_bits_per_byte", 0),
    "standard_error": lambda f: scale(row(f, "accumulator hmx_v75_g8"), "standard_error", 2),
    "flip_share": lambda f: scale(row(f, "Q4_0 weights"), "flip_share", 1.01),
    "layer_flips": lambda f: row(f)["layer_flips"].__setitem__(2, row(f)["layer_flips"][2] + 2),
}


@pytest.mark.parametrize("named", WIDE)
def test_there_too_a_figure_of_another_size_is_named(found: dict[str, Any], named: str) -> None:
    WIDE[named](elsewhere(found))
    with pytest.raises(EStreamError, match=f"left their baseline: .*{named}"):
        check(found, BASELINE, "full")


def test_there_a_near_tie_that_falls_otherwise_may_move_a_row_a_little(found: dict[str, Any]) -> None:
    found["rounding"], moved = "another", row(found)
    moved["layer_flips"][2] += 1
    moved["flip_share"] += 1 / (4 * found["routers"]["as trained"]["routes_per_layer"])
    moved["delta_bits_per_byte"] += 1e-4
    moved["divergence_bits"] += 1e-4
    check(found, BASELINE, "full")
    moved["divergence_bits"] += 1e-3
    with pytest.raises(EStreamError, match="1 of .*divergence_bits"):
        check(found, BASELINE, "full")


def test_a_missing_baseline_is_told(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match="holds no baseline 'fast'"):
        check(RECORDED["fast"], tmp_path / "none.json", "fast")
    with pytest.raises(EStreamError, match="holds no baseline 'slow'"):
        check(RECORDED["fast"], BASELINE, "slow")
