"""Where rows stand: ours, ggml's default and its fastest are found among the rows of this run."""

from typing import Any

import pytest

from estream_lab.bench.results import standing


def row(implementation: str, name: str, seconds: float, default: bool = False) -> dict[str, Any]:
    return {"implementation": implementation, "name": name, "seconds_median": seconds, "default": default}


OURS = [row("estream", "first", 2.0, True), row("estream", "second", 1.0)]
GGML = [row("ggml", "q4_0 repacked", 6.0, True), row("ggml", "q4_0", 8.0, True), row("ggml", "q4_K", 4.0)]
TORCH = [row("torch", "bf16", 3.0)]


def test_times_are_in_parts_of_ours_the_default_and_the_fastest() -> None:
    found = {(r["implementation"], r["name"]): r for r in standing([*OURS, *GGML, *TORCH])}
    assert {key: r["times_ours"] for key, r in found.items()} == {
        ("estream", "first"): 1, ("estream", "second"): 0.5, ("ggml", "q4_0 repacked"): 3, ("ggml", "q4_0"): 4,
        ("ggml", "q4_K"): 2, ("torch", "bf16"): 1.5,
    }  # fmt: skip
    assert found["torch", "bf16"]["times_default"] == 0.5 and found["torch", "bf16"]["times_fastest"] == 0.75
    assert [key for key, r in found.items() if r["fastest"]] == [("ggml", "q4_K")]
    assert [key for key, r in found.items() if r["default"]] == [("estream", "first"), ("ggml", "q4_0 repacked")]


def test_the_fastest_is_found_anew_and_the_default_is_the_first_that_there_is() -> None:
    found = standing([*OURS, GGML[1], row("ggml", "q4_K", 9.0)])
    assert [r["name"] for r in found if r["fastest"]] == ["q4_0"]
    assert [r["name"] for r in found if r["default"]] == ["first", "q4_0"]


@pytest.mark.parametrize("rows", [OURS, [*OURS, *TORCH]])
def test_without_ggml_there_is_nothing_to_stand_against(rows: list[dict[str, Any]]) -> None:
    found = standing(rows)
    assert all(r["times_default"] is r["times_fastest"] is None and not r["fastest"] for r in found)
    assert [r["times_ours"] for r in found] == [r["seconds_median"] / 2 for r in rows]
