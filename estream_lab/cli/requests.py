"""A request on a simulated device: options for a public model, its routes and the profile, and words for figures."""

import argparse
from pathlib import Path

from estream_lab.cli.options import positive
from estream_lab.errors import EStreamError
from estream_lab.routing import Routes, read_routes
from estream_lab.simulate import MODELS, Device, ModelShape, load_device
from estream_lab.simulate.workload import drawn_routes

FAMILY, TOKENS, DEVICE = "olmoe", 1024, "phone"


def add_request(parser: argparse.ArgumentParser) -> None:
    """--family, --device, --tokens, --alpha, --seed and --routes."""
    parser.add_argument("--family", choices=list(MODELS), help=f"a public model (default: {FAMILY})")
    parser.add_argument(
        "--device", metavar="NAME", help=f"a profile in data/devices, or a .json file (default: {DEVICE})"
    )
    parser.add_argument(
        "--tokens", type=positive, metavar="N", help=f"prompt length, with synthetic routes (default {TOKENS})"
    )
    parser.add_argument(
        "--alpha", type=float, help="skew of synthetic routes: smaller is steeper (default: the model's)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of synthetic routes (default 0)")
    parser.add_argument(
        "--routes", type=Path, metavar="FILE", help="take the routes of a file, .csv or .jsonl, instead"
    )


def profile_file(options: argparse.Namespace) -> Path | None:
    """The file that --device names, if it names one."""
    return Path(options.device) if options.device is not None and options.device.endswith(".json") else None


def device_asked(options: argparse.Namespace) -> Device:
    """The profile that --device names.

    Raises:
        EStreamError: as `load_device`.
    """
    return load_device(options.device or DEVICE)


def simulated_on(device: Device) -> str:
    """How figures of a profile came about, in words."""
    return f"simulated ({device.mark} profile, fitted to {device.scope})"


def routes_asked(options: argparse.Namespace, model: ModelShape) -> tuple[dict[int, Routes], str]:
    """The routes by layer, and where they come from.

    Raises:
        EStreamError: options that contradict each other, or routes that can't be read or drawn.
    """
    if options.routes is None:
        return drawn_routes(model, options.tokens or TOKENS, alpha=options.alpha, seed=options.seed)
    if options.tokens is not None or options.alpha is not None:
        raise EStreamError("--tokens and --alpha are of synthetic routes: leave them out, or --routes")
    return read_routes(options.routes), str(options.routes)
