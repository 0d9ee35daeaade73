"""estream bench orders: public models, or a store's with its own routes; what doesn't go together is told."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from estream_lab.cli import main
from estream_lab.cli.bench import orders as command
from estream_lab.routing import synthetic_routes, write_routes
from estream_lab.simulate import MODELS, load_device
from estream_lab.simulate.workload import drawn_routes
from estream_lab.tuning.orders import orders_of
from tests.stores import SPEC, synthetic_store


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["bench", "orders", *arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_public_models_are_run_with_the_second_half_of_drawn_routes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: replace(MODELS[name], layers=1) for name in ("olmoe", "mixtral")}
    monkeypatch.setattr(command, "MODELS", few)
    monkeypatch.setattr(command, "TOKENS", 64)
    found = told(capsys)
    expected = [
        row.to_json()
        for model in few.values()
        for row in orders_of(load_device("phone"), model, *drawn_routes(model, 128))
    ]
    assert found["rows"] == json.loads(json.dumps(expected))
    assert str(found["kind"]).startswith("simulated (fitted profile")
    assert main(["bench", "orders"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == command.table(found) and len(lines) == 4 + len(expected)
    first = expected[0]["seconds"]
    assert f"| {100 * (first['popularity'] / first['id'] - 1):+.2f} % |" in lines[4]


def test_a_store_is_run_with_the_routes_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, file = synthetic_store(tmp_path), tmp_path / "routes.csv"
    shape = (40, SPEC.experts, SPEC.router.top_k)
    write_routes(file, {layer: synthetic_routes(*shape, alpha=0.5, seed=layer) for layer in range(SPEC.layers)})
    rows = told(capsys, str(store), "--routes", str(file))["rows"]
    assert isinstance(rows, list) and [name for row in rows for name in row["budgets"]] == ["low", "high"]
    for row in rows:
        assert (row["model"], row["routes"]) == (store.name, "routes.csv")
        assert all(np.isfinite(seconds) and seconds > 0 for seconds in row["seconds"].values())


def test_a_store_without_routes_or_routes_without_a_store_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([str(tmp_path)], ["--routes", str(tmp_path / "routes.csv")]):
        assert main(["bench", "orders", *arguments]) == 1
        assert "a model and its routes go together" in capsys.readouterr().err
