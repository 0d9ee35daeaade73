"""Opening files for direct I/O where the system allows it, and saying so where it doesn't."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from estream_lab.errors import EStreamError


@dataclass(frozen=True)
class DirectFile:
    """An open file descriptor for page-aligned reads.

    Attributes:
        fd: the descriptor; it keeps the data readable even if the file's name is removed meanwhile.
        direct: whether reads bypass the page cache.
        reason: why they don't, else empty.
    """

    fd: int
    direct: bool
    reason: str
    path: Path

    def read_into(self, views: list[memoryview], offset: int) -> int:
        """One vectored read; returns the bytes read. Without direct I/O the pages are dropped from the cache again."""
        count = os.preadv(self.fd, views, offset)
        if not self.direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, offset, count, os.POSIX_FADV_DONTNEED)
        return count

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


def open_direct(path: Path) -> DirectFile:
    """Open ``path`` for reading past the page cache; fall back to buffered reads that leave no pages behind.

    Raises:
        EStreamError: the file can't be opened.
    """
    try:
        if hasattr(os, "O_DIRECT"):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
            except OSError as error:
                if not isinstance(error, FileNotFoundError | PermissionError):
                    return DirectFile(
                        os.open(path, os.O_RDONLY | os.O_CLOEXEC), False, f"no direct I/O here: {error.strerror}", path
                    )
                raise
            return DirectFile(fd, True, "", path)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise EStreamError(f"can't open {path}: {error.strerror}") from error
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_NOCACHE, 1)
        return DirectFile(fd, True, "", path)
    return DirectFile(fd, False, f"{sys.platform} has no direct I/O that this program knows", path)
