"""Where benches work: a folder that is kept, or one that doesn't outlive its run."""

import errno
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from estream_lab.errors import EStreamError
from estream_lab.models.spec import ModelSpec
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.streaming.dense import KEEP
from estream_lab.streaming.pack import pack_synthetic
from estream_lab.streaming.store import EXPERTS, MANIFEST

PREFIX = "estream-bench-"
LOCK = "lock"


@contextmanager
def workplace(folder: Path | None, needed_bytes: int = 0) -> Iterator[Path]:
    """A folder for a run's files.

    Args:
        folder: is made if it isn't there, and kept; None gives a temporary one in the user's cache folder, on a disk
            and not in memory. Where many bytes are needed, its place is told. What runs left behind that were killed
            is removed from there first.
        needed_bytes: room that its disk must have.

    Raises:
        EStreamError: it can't be made, its disk has less room, or it lies in a store.
    """
    if folder is not None:
        real = Path(os.path.realpath(folder))  # Path.resolve raises no OSError where links lead in a circle
        for place in (real, *real.parents):
            if (place / MANIFEST).exists() and (place / EXPERTS).exists():
                raise EStreamError(f"{folder} lies in the store {place}: give a --folder outside of it")
        with _made(folder, "choose another --folder"):
            _check_room(folder, needed_bytes)
        try:
            yield folder
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"finished files are kept in {folder}") from None
        return
    parent = cache_folder()
    with ExitStack() as stack:
        with _made(parent, "set XDG_CACHE_HOME to a folder for temporary files"), _alone(parent):
            _remove_abandoned(parent)
            _check_room(parent, needed_bytes)
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent))
            held = stack.enter_context(open(Path(name) / LOCK, "ab"))
            fcntl.flock(held, fcntl.LOCK_EX)
        if needed_bytes:
            print(f"files of this run ({needed_bytes / 1e9:.1f} GB) lie in {name} until it ends", file=sys.stderr)
        with _disk_is_full(parent):
            yield Path(name)


@contextmanager
def _disk_is_full(folder: Path) -> Iterator[None]:
    """NumPy tells of a full disk without its number."""
    try:
        yield
    except OSError as error:
        if error.errno not in (None, errno.ENOSPC, errno.EDQUOT):
            raise
        raise EStreamError(
            f"no room left in {folder} ({error.strerror or error}): make room, or set XDG_CACHE_HOME to a folder on "
            "another disk"
        ) from error


def cache_folder() -> Path:
    """The user's folder for what may be removed at any time.

    Raises:
        EStreamError: XDG_CACHE_HOME names none, and the user has no home.
    """
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):
        return Path(chosen) / "estream-lab"
    usual = "Library/Caches" if sys.platform == "darwin" else ".cache"
    try:
        return Path.home() / usual / "estream-lab"
    except RuntimeError as error:
        raise EStreamError(
            "this user has no home folder for temporary files: set XDG_CACHE_HOME to a folder for them"
        ) from error


@contextmanager
def _alone(parent: Path) -> Iterator[None]:
    """Nobody else makes or removes folders in ``parent``: a new one could be removed before its lock is held."""
    descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # and the lock with it


@contextmanager
def _made(folder: Path, remedy: str) -> Iterator[None]:
    """The folder is there within; what the system says against it becomes a sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise EStreamError(f"can't work in {folder}: {error.strerror}; {remedy}") from error


def _check_room(folder: Path, needed_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed_bytes > free:
        raise EStreamError(
            f"this run needs {needed_bytes / 1e9:.1f} GB for files, and {folder} has {free / 1e9:.1f} GB free: make "
            "room, or set XDG_CACHE_HOME to a folder on another disk"
        )


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
