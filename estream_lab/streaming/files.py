"""Opening files for direct I/O where the system allows it, and saying so where it doesn't."""

import errno
import fcntl
import os
import sys
import weakref
from pathlib import Path

from estream_lab.errors import EStreamError

NO_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP)  # what file systems without direct I/O answer, some only to a read


class DirectFile:
    """An open file for page-aligned reads.

    Args:
        fd: a descriptor to own; it keeps the data readable even if the file's name is removed meanwhile.
        direct: whether it was opened for direct I/O.
        reason: why not, else empty.
        path: the file's name, for messages.
    """

    def __init__(self, fd: int, direct: bool, reason: str, path: Path) -> None:
        self.fd, self.path = fd, path
        self._direct, self._reason = direct, reason
        self._close = weakref.finalize(self, os.close, fd)

    @property
    def direct(self) -> bool:
        """Whether reads bypass the page cache; a read that the file system refuses may end it."""
        return self._direct

    @property
    def reason(self) -> str:
        """Why they don't, else empty."""
        return self._reason

    def read_into(self, views: list[memoryview], offset: int) -> int:
        """One vectored read; returns the bytes read, any number. Without direct I/O the pages leave the cache again.

        Raises:
            OSError: as the system says it, but for direct I/O that turns out not to work: the read is then buffered.
        """
        direct = self._direct
        try:
            count = os.preadv(self.fd, views, offset)
        except OSError as error:
            if not direct or error.errno not in NO_DIRECT:
                raise
            self.go_buffered(f"direct reads fail here: {error.strerror}")
            count = os.preadv(self.fd, views, offset)
        if not self._direct and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, offset, count, os.POSIX_FADV_DONTNEED)
        return count

    def go_buffered(self, reason: str) -> None:
        """Read through the page cache from now on; other threads' reads under way aren't disturbed."""
        if hasattr(os, "O_DIRECT"):
            fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) & ~os.O_DIRECT)
        self._direct, self._reason = False, reason

    def close(self) -> None:
        """Close the descriptor; it is closed with the last reference in any case."""
        self._close()


def open_direct(path: Path) -> DirectFile:
    """Open ``path`` for reading past the page cache; fall back to buffered reads that leave no pages behind.

    Raises:
        EStreamError: the file can't be opened.
    """
    try:
        if hasattr(os, "O_DIRECT"):
            try:
                return DirectFile(os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC), True, "", path)
            except OSError as error:
                if error.errno not in NO_DIRECT:
                    raise
                reason = f"no direct I/O here: {error.strerror}"
                return DirectFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), False, reason, path)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise EStreamError(f"can't open {path}: {error.strerror}") from error
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_NOCACHE, 1)
        return DirectFile(fd, True, "", path)
    return DirectFile(fd, False, f"{sys.platform} has no direct I/O that this program knows", path)
