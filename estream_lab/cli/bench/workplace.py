"""Where benches make their synthetic stores: a folder that is kept, or one that doesn't outlive its run."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from estream_lab.models.spec import ModelSpec
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.streaming.dense import KEEP
from estream_lab.streaming.pack import pack_synthetic

PREFIX = "estream-bench-"
LOCK = "lock"


@contextmanager
def workplace(folder: Path | None) -> Iterator[Path]:
    """``folder``, made if it isn't there and kept; None gives a temporary folder in the current one, on whose disk
    reads are measured. What runs left behind that were killed is removed first.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            yield folder
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"finished stores are kept in {folder}") from None
        return
    _remove_abandoned(Path("."))
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=".") as name, ExitStack() as stack:
        held = stack.enter_context(open(Path(name) / LOCK, "ab"))
        fcntl.flock(held, fcntl.LOCK_EX)
        yield Path(name)


def _remove_abandoned(parent: Path) -> None:
    """Remove the temporary folders whose process has ended: nobody holds their lock any more."""
    for folder in parent.glob(PREFIX + "*"):
        try:
            with open(folder / LOCK, "r+b") as file:
                if _free(file):
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # no lock (yet), or another user's: not ours to judge
            continue


def _free(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def synthetic_store(folder: Path, spec: ModelSpec, dense_quant: str = KEEP) -> Path:
    """The store of random weights of this shape in ``folder``, packed if it isn't there yet."""
    shape = f"{spec.hidden}x{spec.ffn}x{spec.layers}-{spec.router.top_k}of{spec.experts}-{spec.heads}"
    dense = "" if dense_quant == KEEP else f"-dense-{dense_quant}"
    path = folder / f"synthetic-{shape}{dense}.estream"
    if not os.path.lexists(path):
        pack_synthetic(SyntheticSource(spec), path, dense_quant=dense_quant)
    return path
