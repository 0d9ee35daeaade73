"""A store of random weights in OLMoE's sizes, as benches offer it in place of one of the user's."""

import argparse
from pathlib import Path

from estream_lab.cli.bench.workplace import synthetic_store
from estream_lab.cli.options import positive
from estream_lab.errors import EStreamError
from estream_lab.models.synthetic import synthetic_spec
from estream_lab.streaming import Store

SIZES = (
    ("hidden", 2048, "hidden size"),
    ("ffn", 1024, "size within an expert"),
    ("layers", 4, "layers"),
    ("experts", 64, "experts a layer"),
    ("top-k", 8, "experts a token"),
)


def add_synthetic(action: argparse.ArgumentParser) -> None:
    """--synthetic and its sizes."""
    action.add_argument(
        "--synthetic", action="store_true", help="instead: random weights in OLMoE's sizes, four layers (1.2 GB)"
    )
    for name, default, what in SIZES:
        action.add_argument(
            f"--{name}", type=positive, default=default, help=f"with --synthetic: {what} (default {default})"
        )


def synthetic_asked(options: argparse.Namespace, folder: Path) -> Store:
    """The store that the options describe, packed into ``folder`` if it isn't there.

    Raises:
        EStreamError: more experts a token than there are.
    """
    if options.top_k > options.experts:
        raise EStreamError(f"--top-k {options.top_k} is more than the {options.experts} experts: give more --experts")
    shape = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name, _, _ in SIZES}
    heads = max(1, options.hidden // 128)  # OLMoE: 16 of 128
    return Store(synthetic_store(folder, synthetic_spec(heads=heads, **shape)))
