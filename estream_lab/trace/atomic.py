"""Files that are either whole or absent."""

import os
import tempfile
from pathlib import Path

from estream_lab.errors import EStreamError


def write_atomically(path: Path | str, data: bytes) -> None:
    """Write `data` to `path` so that a reader, or a crash, sees the old file or the whole new one.

    Raises `EStreamError` where the folder does not exist or cannot be written.
    """
    target = Path(path)
    handle, name = _open_beside(target)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)  # mkstemp makes a private file; a result is as readable as any other new file
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise EStreamError(f"Cannot write {target}: {error.strerror}; free the path or give another.") from error
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_writable(path: Path | str) -> None:
    """Raise the `EStreamError` that `write_atomically` would raise for this path, before work is spent on a result."""
    handle, name = _open_beside(Path(path))
    os.close(handle)
    Path(name).unlink()


def _open_beside(target: Path) -> tuple[int, str]:
    """A new file in the target's folder: its descriptor and its path."""
    if target.exists() and not target.is_file():  # renaming would put a plain file in the place of a device
        raise EStreamError(f"Cannot write {target}: it is a folder or a device; give the path of a file.")
    try:
        return tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
    except OSError as error:
        raise EStreamError(f"Cannot write {target}: {error.strerror}; give a path in a writable folder.") from error
