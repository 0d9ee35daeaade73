"""estream pack: checkpoint to store."""

import argparse
import json
from pathlib import Path

from estream_lab.streaming.pack import QUANTS, pack


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command."""
    parser = commands.add_parser("pack", help="pack a checkpoint into a store")
    parser.add_argument("checkpoint", type=Path, help="folder of a transformers checkpoint")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="NAME.estream")
    parser.add_argument("--quant", choices=sorted(QUANTS), default="q4_0", help="of the experts (default: q4_0)")
    return parser


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    try:
        packed = pack(options.checkpoint, options.output, quant=options.quant)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"whole layers are kept in {options.output}.partial, run the same command again to go on"
        ) from None
    if options.json:
        print(json.dumps(packed.to_json()))
    else:
        resumed = f", {packed.resumed_layers} layers resumed" if packed.resumed_layers else ""
        print(f"{packed.path}: {packed.experts_bytes} bytes of experts, {packed.dense_bytes} of the rest{resumed}")
    return 0
