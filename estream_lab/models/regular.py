"""Opening plain files only: a pipe under an expected name would be waited for, a device read, without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def open_regular(path: str | os.PathLike[str]) -> int:
    """A descriptor for reading.

    Raises:
        OSError: the file can't be opened, or is a folder, a pipe, a device or a socket; never waits for a writer.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", os.fspath(path))
    raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The content of a plain file; raises OSError as `open_regular` does."""
    with open(open_regular(Path(path)), "rb") as file:
        return file.read()
