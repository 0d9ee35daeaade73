"""estream pack: checkpoint to store."""

import argparse
import json
from pathlib import Path

from estream_lab.cli.calibrate import calibration_routes
from estream_lab.errors import EStreamError
from estream_lab.experts.order import ORDERS, ExpertOrder
from estream_lab.models.source import ExpertSource
from estream_lab.routing import read_routes
from estream_lab.streaming.dense import DENSE_QUANTS, KEEP
from estream_lab.streaming.pack import check_output, pack
from estream_lab.streaming.record import QUANTS
from estream_lab.streaming.store import MANIFEST


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("pack", help="pack a checkpoint into a store")
    parser.add_argument("checkpoint", type=Path, help="folder of a transformers checkpoint")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="NAME.estream", help="the store, a folder that is made"
    )
    parser.add_argument("--quant", choices=sorted(QUANTS), default="q4_0", help="of the experts (default: q4_0)")
    parser.add_argument(
        "--dense-quant",
        choices=[KEEP, *DENSE_QUANTS],
        default=KEEP,
        help="of attention's projections, embedding and head (default: keep, in the checkpoint's dtype); norms and "
        "routers are always kept",
    )
    parser.add_argument(
        "--order",
        choices=list(ORDERS),
        default="id",
        help="which experts lie together: by id (default), the most-routed first, or those that are chosen together",
    )
    routes = parser.add_mutually_exclusive_group()
    routes.add_argument("--routes", type=Path, metavar="FILE", help="order by these routes: .csv or .jsonl")
    routes.add_argument(
        "--order-prompt-file",
        type=Path,
        metavar="FILE",
        help="order by the routes of this text: it runs on a temporary store, which takes as much disk again",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    check_output(options.output, options.quant)
    order = _order(options)
    packed = pack(options.checkpoint, options.output, quant=options.quant, dense_quant=options.dense_quant, order=order)
    if options.json:
        print(json.dumps(packed.to_json() | {"order": order.to_json() if order else {"name": "id"}}))
    else:
        resumed = f", {packed.resumed_layers} layers resumed" if packed.resumed_layers else ""
        ordered = f", experts by {order.name} over {order.tokens} tokens of {order.source}" if order else ""
        sizes = f"{packed.experts_bytes} bytes of experts, {packed.dense_bytes} of the rest ({packed.dense_quant})"
        print(f"{packed.path}: {sizes}{resumed}{ordered}")
    return 0


def kept(options: argparse.Namespace) -> str:
    """What a stopped run leaves, as the files tell it."""
    partial, calibration = (options.output.with_name(options.output.name + s) for s in (".partial", ".calibration"))
    if (options.output / MANIFEST).exists():
        return f"{options.output} is whole"
    place = next((path for path in (partial, calibration, options.output) if path.exists()), None)
    if place is None:
        return "no file was changed"
    return f"whole layers are kept in {place}, run the same command again to go on"


def _order(options: argparse.Namespace) -> ExpertOrder | None:
    """The order that is asked for, None for the one by id."""
    given = options.routes or options.order_prompt_file
    if options.order == "id":
        if given:
            raise EStreamError(f"the order by id needs no routes: leave {given} out, or choose another --order")
        return None
    if not given:
        raise EStreamError(f"--order {options.order} needs routes: give --routes FILE or --order-prompt-file FILE")
    with ExpertSource.open(options.checkpoint) as source:
        spec = source.spec
    if options.routes:
        routes = read_routes(given, experts=spec.experts, weight_if_absent=1.0)  # weights have no part in an order
    else:
        routes = calibration_routes(options.checkpoint, options.output, options.quant, options.dense_quant, given)
    return ExpertOrder.of(options.order, routes, spec.layers, spec.experts, spec.router.top_k, given.name)
