"""The folder of a store that is being packed: resumed by its journal, held by one process, committed by two renames."""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.streaming.store import EXPERTS, MANIFEST

JOURNAL = "pack.json"
COMMITTING = MANIFEST + ".partial"


def resume(partial: Path, settings: dict[str, Any], layer_bytes: int) -> list[list[str]]:
    """Checksums of the layers that an interrupted run of the same settings finished."""
    try:
        journal = json.loads((partial / JOURNAL).read_bytes())
        size = (partial / EXPERTS).stat().st_size
        if journal["settings"] != json.loads(json.dumps(settings)):
            raise EStreamError(f"{partial} was begun from another checkpoint or with other settings: remove it first")
        layers: list[list[str]] = journal["layers"]
        return layers[: size // layer_bytes]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EStreamError(f"{partial / JOURNAL} is damaged ({error!r}): remove {partial} and pack again") from error


def check_space(folder: Path, needed: int) -> None:
    """Refuse (EStreamError) to begin what the disk has no room for, in bytes."""
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise EStreamError(
            f"{folder} has {free} bytes free and the store needs {needed} more: make room and pack again"
        )


def replace_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON whole or not at all; errors stay OSErrors, so that a full disk is told from bad input."""
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def commit(partial: Path, output: Path, manifest: dict[str, Any]) -> None:
    """Rename folder, then manifest: a folder without manifest.json is no store."""
    replace_json(partial / COMMITTING, manifest)
    os.rename(partial, output)
    finish_commit(output)


def finish_commit(output: Path) -> None:
    """The second rename; the journal goes last, for until then it tells whose work this is."""
    os.rename(output / COMMITTING, output / MANIFEST)
    (output / JOURNAL).unlink(missing_ok=True)


@contextmanager
def alone(partial: Path) -> Iterator[None]:
    """Hold the folder against other processes that pack into it.

    Raises:
        EStreamError: one does already.
    """
    with open(partial / EXPERTS, "ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EStreamError(f"another process is packing into {partial}: wait for its end") from error
        yield


@contextmanager
def disk_errors(partial: Path) -> Iterator[None]:
    """What the system says against reading or writing becomes a sentence (EStreamError)."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise EStreamError(
                f"no room left while writing {partial}: what is whole is kept there, free some space and run the same "
                "command again to go on"
            ) from error
        ours = str(error.filename or partial).startswith(str(partial).removesuffix(".partial"))
        what = f"write {partial}" if ours else f"read {error.filename}"
        raise EStreamError(f"can't {what}: {error.strerror or error}: check the disk, then run it again") from error
