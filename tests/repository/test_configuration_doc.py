"""docs/configuration.md shows what its commands print."""

import re
from pathlib import Path

import pytest

from estream_lab.cli.bench import orders, pairs
from estream_lab.cli.requests import simulated_on
from estream_lab.simulate import MODELS, load_device
from estream_lab.simulate.workload import drawn_routes
from estream_lab.tuning.orders import orders_of
from estream_lab.tuning.pairs import FAMILIES, REPORTED_SEEDS, TERMS, TOKENS, gate, sweep_size

TEXT = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
PHONE = load_device("phone")
KIND = simulated_on(PHONE)


def shown(command: str) -> list[str]:
    """The lines between the marks."""
    (found,) = re.findall(rf"<!-- {command} -->\n\n(.*?)\n\n<!-- end of {command} -->", TEXT, re.DOTALL)
    return str(found).splitlines()


def cells(line: str) -> list[str]:
    return line.strip("| ").split(" | ")


def test_the_twelve_pairs_are_what_the_command_prints() -> None:
    cases, found = pairs.measure(PHONE, range(0))
    rows = [row for family, case in zip(FAMILIES, cases, strict=True) for row in pairs.pairs_of(family, case)]
    printed = pairs.table({
        "kind": KIND, "tokens": TOKENS, "configurations": sweep_size(), "gate": gate(), "pairs": rows,
        "summaries": [each.to_json() for each in found],
    })  # fmt: skip
    assert shown("bench pairs")[: len(printed)] == printed
    assert len(rows) == 12


def test_the_gates_that_the_page_speaks_of_are_kept() -> None:
    rows = [cells(line) for line in shown("bench pairs")[-14:]]
    counts = {(devices, noise, model): row for devices, noise, model, *row in rows}
    drawn = f"{len(REPORTED_SEEDS)} drawn"
    assert list(counts) == [
        (devices, noise, model)
        for devices in ("phone", drawn)
        for noise, models in (("without", [each.name for each in TERMS]), ("with", ["literal", "shared"]))
        for model in models
    ]
    for (devices, noise, model), (choices, fastest, _, within_budget, *_, worst) in counts.items():
        each = (
            (1 if noise == "without" else len(REPORTED_SEEDS)) * 12 if devices == "phone" else 3 * len(REPORTED_SEEDS)
        )
        assert int(choices) == int(within_budget) == each
        if (devices, noise) == ("phone", "without"):
            assert float(worst.removesuffix(" %")) <= 100 * gate()
            assert (int(fastest) == 12) == (model in ("shared", "literal, reads share"))
        if model == "shared":
            assert float(worst.removesuffix(" %")) <= 100 * gate()
        elif devices == drawn:
            assert float(worst.removesuffix(" %")) > 5
    missed = 3 * len(REPORTED_SEEDS) - int(counts[drawn, "without", "shared"][1])
    assert f"Without noise {missed} choices of 600, by {counts[drawn, 'without', 'shared'][-1]} at most" in TEXT


@pytest.mark.parametrize("name", ["lfm2", "mixtral"])
def test_orders_of_models_are_what_the_command_prints(name: str) -> None:
    model = MODELS[name]
    rows = [each.to_json() for each in orders_of(PHONE, model, *drawn_routes(model, 2 * TOKENS))]
    printed, page = orders.table({"kind": KIND, "rows": rows}), shown("bench orders")
    assert page[:4] == printed[:4]
    assert [line for line in page if line.startswith(f"| {model.title} |")] == printed[4:]
    assert {cells(line)[0] for line in page[4:]} == {model.title for model in MODELS.values()}


def test_orders_of_the_shipped_model_have_the_form_that_the_command_prints() -> None:
    rows = [cells(line) for line in shown("bench orders tiny.estream")]
    assert rows[:2] == [cells(line) for line in shown("bench orders")[2:4]]
    assert [row[:2] for row in rows[2:]] == [["tiny.estream", "text.csv"], ["tiny.estream", "code.csv"]]
    for row in rows[2:]:
        assert all(re.fullmatch(r"[+-]\d\.\d\d %", change) for change in row[5:])


def test_what_the_page_says_of_orders_holds() -> None:
    rows = [cells(line) for line in (*shown("bench orders")[4:], *shown("bench orders tiny.estream")[2:])]
    changes = [[float(change.removesuffix(" %")) for change in row[5:]] for row in rows]
    for row, (_, work, johnson, bound) in zip(rows, changes, strict=True):
        assert work == johnson >= -2
        left = 100 * (1 - (100 + bound) / (100 + johnson))
        assert left == 0 if row[0] == "Mixtral-8x7B" else 1 <= left < 7.5
    for row, (popularity, *_) in zip(rows, changes, strict=True):
        if row[0] in ("LFM2-8B-A1B", "Mixtral-8x7B", "tiny.estream"):
            assert -4 < popularity < -2
        else:
            assert -1 < popularity < 1 and (popularity < 0) == (row[0] == "Qwen3-30B-A3B")
