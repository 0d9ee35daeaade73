"""Routes to order experts by, before there is a store: a calibration prompt runs on a temporary store ordered by id."""

import argparse
import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from estream_lab.cli.options import prompt_tokens
from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.routing import Routes
from estream_lab.streaming.pack import pack


def calibration_routes(
    checkpoint: Path, output: Path, quant: str, dense_quant: str, prompt_file: Path
) -> dict[int, Routes]:
    """The routes of a text, by layer.

    The checkpoint is packed by id into ``NAME.estream.calibration`` beside ``output`` and the text streams through it,
    in prompts of the context's length, so that memory stays that of packing and of a small arena. The temporary store
    is as large as the wanted one, and is gone before that is begun. An interrupted run of the same command goes on.

    Args:
        checkpoint, output, quant, dense_quant: as for `pack`.
        prompt_file: a UTF-8 text.

    Raises:
        EStreamError: bad input, no tokenizer, or another process that does the same.
    """
    with _folder(output) as folder:
        shutil.rmtree(folder / "id.estream", ignore_errors=True)  # a killed run's, of a checkpoint that it doesn't tell
        store = pack(checkpoint, folder / "id.estream", quant=quant, dense_quant=dense_quant).path
        with PrefillEngine.open(store, chunk_tokens=1024) as engine:
            options = argparse.Namespace(tokens=None, prompt=None, prompt_file=prompt_file, max_tokens=None)
            tokens = prompt_tokens(options, engine)
            if not len(tokens):
                raise EStreamError(f"{prompt_file} is empty: give a text to order the experts by")
            prompts = range(0, len(tokens), engine.spec.context)
            parts = [
                engine.prefill(tokens[start : start + engine.spec.context], want="hidden", progress=True).routes
                for start in prompts
            ]
        return {layer: _join([part[layer] for part in parts], prompts) for layer in parts[0]}


@contextmanager
def _folder(output: Path) -> Iterator[Path]:
    """The folder of the temporary store, held against other processes; it stays only where ^C stops the work."""
    folder = output.with_name(output.name + ".calibration")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EStreamError(f"another process calibrates in {folder}: wait for its end") from error
        try:
            yield folder
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"whole layers are kept in {folder}, run the same command again to go on") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder)


def _join(parts: list[Routes], starts: range) -> Routes:
    """Routes of prompts as those of one text; ``starts`` are their first tokens."""
    return Routes(
        np.concatenate([part.token + np.int32(start) for part, start in zip(parts, starts, strict=True)]),
        np.concatenate([part.expert for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )
