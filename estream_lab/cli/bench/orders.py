"""estream bench orders: whether another order of experts or groups would help, on a simulated device."""

import argparse
import json
from pathlib import Path
from typing import Any

from tqdm import tqdm

from estream_lab import __version__
from estream_lab.cli.requests import TOKENS, profile_file, simulated_on
from estream_lab.cli.results import check_results
from estream_lab.errors import EStreamError
from estream_lab.routing import Routes, read_routes
from estream_lab.simulate import MODELS, ModelShape, load_device
from estream_lab.simulate.workload import drawn_routes
from estream_lab.streaming import Store
from estream_lab.tuning.orders import Orders, orders_of


def add(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the action."""
    action = actions.add_parser("orders", help="experts by id and popularity, groups in the best order, and the bound")
    action.add_argument(
        "store", type=Path, nargs="?", metavar="STORE", help="a NAME.estream folder: its model (default: five public)"
    )
    action.add_argument(
        "--routes", type=Path, metavar="FILE", help="with STORE: of a prompt, by estream routes; .csv or .jsonl"
    )
    action.add_argument(
        "--device", default="phone", metavar="NAME", help="a profile in data/devices, or a .json file (default: phone)"
    )
    action.set_defaults(folder=None)
    return action


def run(options: argparse.Namespace) -> int:
    """Run the action."""
    check_results({}, {"the store": options.store, "--routes": options.routes, "--device": profile_file(options)})
    device = load_device(options.device)
    rows: list[Orders] = []
    for model, routes, origin in tqdm(_requests(options), unit="model", desc="orders", leave=False):
        rows += orders_of(device, model, routes, origin)
    told = {
        "kind": simulated_on(device),
        "version": __version__,
        "device": device.name,
        "rows": [each.to_json() for each in rows],
    }
    print(json.dumps(told) if options.json else "\n".join(table(told)))
    return 0


def _requests(options: argparse.Namespace) -> list[tuple[ModelShape, dict[int, Routes], str]]:
    """Models with routes of twice as many tokens as are run, and what these are."""
    if (options.store is None) != (options.routes is None):
        raise EStreamError("a model and its routes go together: give STORE and --routes, or neither")
    if options.store is None:
        return [(model, *drawn_routes(model, 2 * TOKENS)) for model in MODELS.values()]
    store = Store(options.store)
    model = ModelShape.of_spec(store.spec, store.path.name, store.stride)
    routes = read_routes(options.routes, experts=model.experts, weight_if_absent=1.0)  # weights have no part in loads
    return [(model, routes, options.routes.name)]


def table(found: dict[str, Any]) -> list[str]:
    """A row for each configuration, as Markdown; changes are those against experts by id."""
    lines = [
        f"{found['kind'][0].upper()}{found['kind'][1:]}. Popularity: in the tokens before those that are run. Work and "
        "Johnson: groups by id, as a perfect forecast would order them. Bound: of these groups in any order with a "
        "bank for each, at this B's bank cost and this Q's bandwidth.",
        "",
        "| model | routes | budget | G, B, Q | by id | popularity | descending work | Johnson | bound |",
        "|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in found["rows"]:
        seconds, place = row["seconds"], row["settings"]
        changes = [seconds["popularity"], seconds["descending work"], seconds["johnson"], row["bound_seconds"]]
        where = f"{place['group_size']}, {place['banks']}, {place['queue_depth']}"
        lines.append(
            f"| {row['model']} | {row['routes']} | {' and '.join(row['budgets'])} | {where} | {seconds['id']:.4g} s | "
            + " | ".join(f"{100 * (each / seconds['id'] - 1):+.2f} %" for each in changes)
            + " |"
        )
    return lines
