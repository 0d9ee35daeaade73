"""estream simulate: a request on a device that isn't here, by its profile."""

import argparse
import json
from pathlib import Path

from estream_lab.cli.options import kept_files, positive
from estream_lab.cli.replays import add_replay, replay_file
from estream_lab.cli.requests import FAMILY, add_request, device_asked, profile_file, routes_asked
from estream_lab.cli.results import check_results
from estream_lab.errors import EStreamError
from estream_lab.experts.schedule import POLICIES
from estream_lab.simulate import MODELS, ModelShape, Settings, Simulation, Workload, simulate
from estream_lab.streaming import Store
from estream_lab.trace import KINDS, write_trace


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("simulate", help="simulate a request on a device, from its profile")
    parser.add_argument("store", type=Path, metavar="STORE", nargs="?", help="a NAME.estream folder: its model")
    add_request(parser)
    parser.add_argument(
        "--schedule", choices=list(POLICIES), default="early", help="when groups are read (default: early)"
    )
    parser.add_argument(
        "--carry-over", action="store_true", help="with early: go on with the next layer's groups in free banks"
    )
    parser.add_argument(
        "--group-size", type=positive, metavar="G", help="experts a group (default 8, at most a layer's)"
    )
    parser.add_argument(
        "--banks", type=positive, metavar="B", help="groups in the arena (default 3, at most a layer's groups)"
    )
    parser.add_argument("--queue-depth", type=positive, metavar="Q", default=2, help="outstanding reads (default 2)")
    parser.add_argument("--trace", type=Path, metavar="FILE", help=f"write the trace: {KINDS}")
    add_replay(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.replay is not None:
        return replay_file(options)
    read = {"the store": options.store, "--routes": options.routes, "--device": profile_file(options)}
    check_results({"--trace": options.trace}, read)
    device, asked = device_asked(options), _workload(options)
    size = options.group_size or min(8, asked.model.experts)
    banks = options.banks or min(3, asked.rows(size).shape[1])
    settings = Settings(size, banks, options.queue_depth, options.schedule, options.carry_over)
    found = simulate(device, asked, settings)
    if options.trace is not None:
        write_trace(found.trace, options.trace)
    print(json.dumps(found.to_json()) if options.json else summary(found))
    if options.trace is not None and not options.json:
        print(f"written         {options.trace}")
    return 0


def kept(options: argparse.Namespace) -> str:
    """What a stopped run leaves."""
    return kept_files(options, options.trace)


def summary(found: Simulation) -> str:
    """The figures for people, a line each."""
    row, settings = found.to_json(), found.settings
    lines = [
        f"device          {found.device.title}",
        f"                {row['kind']}",
        f"model           {row['model']}, routes {row['routes']}",
        f"schedule        {row['schedule']}{', carried over' * row['carry_over']}: G={settings.group_size} "
        f"B={settings.banks} Q={settings.queue_depth}",
        f"tokens          {row['tokens']} in {row['seconds']:.3f} s = {row['tokens_per_second']:.1f} tokens/s",
        f"bytes read      {row['bytes_read']} (needed {row['bytes_needed']}, speculative {row['bytes_speculative']})",
        f"arena           {row['arena_bytes']} bytes",
        f"peak memory     {row['peak_bytes']} bytes (arena, dense weights, keys and values, runtime)",
    ]
    for unit, idle in (("storage", row["storage_idle"]), ("compute", row["npu_idle"])):
        causes = ", ".join(f"{cause} {100 * share:.1f}" for cause, share in row["bubbles"][unit].items())
        lines.append(f"{unit} idle    {100 * idle:.1f} %{f' ({causes})' * bool(causes)}")
    return "\n".join(lines)


def _workload(options: argparse.Namespace) -> Workload:
    """The model that the options name, and its routes."""
    if options.store is not None and options.family is not None:
        raise EStreamError("give a store or --family, not both: each names a model")
    store = None if options.store is None else Store(options.store)
    model = MODELS[options.family or FAMILY]
    if store is not None:
        model = ModelShape.of_spec(store.spec, store.path.name, store.stride)
    asked = Workload.of_routes(model, *routes_asked(options, model))
    return asked if store is None else asked.in_order([layer.order for layer in store.layers])
