"""What `estream profile` and `estream sweep` share: the prompt that is measured, and how it runs."""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estream_lab.cli.options import made_up_tokens, positive, rate, read_text
from estream_lab.errors import EStreamError
from estream_lab.models.tokenizer import Tokenizer
from estream_lab.streaming import Store
from estream_lab.tuning.grids import QUEUE_DEPTHS

DEFAULT_TOKENS = 256


def add_measuring(parser: argparse.ArgumentParser, rounds: int) -> None:
    """STORE, its prompt, the candidates, and how they run; ``rounds`` of each by default."""
    parser.add_argument("store", type=Path, metavar="STORE", help="a NAME.estream folder")
    parser.add_argument("--prompt-file", type=Path, metavar="FILE", help="a UTF-8 text to measure with")
    parser.add_argument(
        "--tokens",
        type=positive,
        metavar="N",
        help=f"use the first N tokens of --prompt-file; without it N made-up ones (default {DEFAULT_TOKENS}, or the "
        "model's context)",
    )
    parser.add_argument(
        "--group-sizes",
        type=positive,
        nargs="+",
        metavar="G",
        help="experts a group (default: E/16, at least 4, its double and its fourfold)",
    )
    parser.add_argument(
        "--queue-depths", type=positive, nargs="+", default=list(QUEUE_DEPTHS), metavar="Q", help="(default 1 2)"
    )
    parser.add_argument("--rounds", type=positive, default=rounds, metavar="N", help=f"(default {rounds})")
    parser.add_argument("--threads", type=positive, metavar="N", help="compute threads (default: all processors)")
    parser.add_argument(
        "--read-bandwidth", type=rate, metavar="SIZE/s", help="hold expert reads to a declared limit, e.g. 20MB/s"
    )


def measured_prompt(options: argparse.Namespace, store: Store) -> tuple[NDArray[np.int32], str]:
    """Token ids (T,), and what they are.

    Raises:
        EStreamError: a text that can't be read, or where the store has no tokenizer; more tokens than the context.
    """
    if options.prompt_file is None:
        return unprompted(store, options.tokens)
    if store.tokenizer_json is None:
        raise EStreamError(f"{store.path} has no tokenizer: give --tokens alone, for made-up ones")
    ids = Tokenizer.from_json(store.tokenizer_json).encode(read_text(options.prompt_file))[: options.tokens]
    if not len(ids):
        raise EStreamError(f"{options.prompt_file} is empty: give a text to measure with")
    if len(ids) > store.spec.context:
        raise EStreamError(
            f"{options.prompt_file} has {len(ids)} tokens and the model's context is {store.spec.context}: "
            f"give --tokens {store.spec.context} or fewer"
        )
    return ids.astype(np.int32), options.prompt_file.name


def unprompted(store: Store, count: int | None = None) -> tuple[NDArray[np.int32], str]:
    """Made-up token ids (T,) where there is no prompt, and what they are.

    Raises:
        EStreamError: more tokens than the context.
    """
    wanted = min(DEFAULT_TOKENS, store.spec.context) if count is None else count
    return made_up_tokens(wanted, store.spec, "--tokens"), "made-up tokens"
