"""A figure that leaves its baseline is named: faults planted in what was recorded."""

import copy
import json
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.evaluate.baseline import ELSEWHERE, LEAST, check, figures

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


def changed(found: Any, change: Callable[[float], float], keys: AbstractSet[str]) -> Any:
    """The same, with another value for each figure under those keys, of every layer and kind."""
    if isinstance(found, dict):
        return {
            key: each(value, change) if key in keys else changed(value, change, keys) for key, value in found.items()
        }
    return [changed(value, change, keys) for value in found] if isinstance(found, list) else found


def each(value: Any, change: Callable[[float], float]) -> Any:
    if isinstance(value, dict):
        return {key: change(of) for key, of in value.items()}
    return [change(of) for of in value] if isinstance(value, list) else change(value)


def are_told(found: dict[str, Any], count: int) -> None:
    with pytest.raises(EStreamError, match=f"^{count} of {len(figures(found))} figures left"):
        check(found, BASELINE, "full")


def recorded(keys: AbstractSet[str]) -> list[float]:
    return [value for at, value in FIGURES.items() if at.rsplit("/", 1)[1].split("[")[0] in keys]  # type: ignore[misc]


FIGURES = figures(RECORDED["full"])


@pytest.mark.parametrize("factor", [0, 1 - 2e-6, 1 + 2e-6, -1])
def test_every_figure_that_moves_is_told_however_small_it_is(found: dict[str, Any], factor: float) -> None:
    keys = ELSEWHERE.keys()
    nonzero = np.count_nonzero(recorded(keys))
    assert nonzero > 1500 and min(abs(value) for value in recorded(keys) if value) < 1e-12
    are_told(changed(found, lambda value: factor * value, keys), nonzero)


@pytest.mark.parametrize("rounding", [RECORDED["full"]["rounding"], "another"])
@pytest.mark.parametrize("flipped", [0, 1])
def test_what_becomes_none_is_told_whatever_rounds_and_what_was_none(
    found: dict[str, Any], rounding: str, flipped: int
) -> None:
    """Of errors and changes, that is: elsewhere a few routes may flip and a few values saturate."""
    found["rounding"], keys = rounding, LEAST.keys()
    nonzero = np.count_nonzero(recorded(keys))
    zeros = len(recorded(keys)) - nonzero
    assert (nonzero, zeros) == (1248, 20)
    moved = 0
    if flipped:
        found = changed(found, lambda value: value + flipped, {"layer_flips"})
        moved = len(recorded({"layer_flips"})) if rounding != "another" else 0
    are_told(changed(found, lambda value: 0.0, keys), nonzero + moved)
    are_told(changed(found, lambda value: value or 1e-13, keys), zeros + moved)


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
    "accumulator hmx_v73_g4/layer_error.2. is 4": lambda f: row(f, "accumulator hmx_v73_g4")["layer_error"].__setitem__(
        2, 4e-5
    ),
    "accumulator ieee_fp32/layer_error.0. is 2": lambda f: row(f, "accumulator ieee_fp32")["layer_error"].__setitem__(
        0, 2e-7
    ),
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
