"""Where a command's results go: refused before work is spent on them, not after."""

import os
from collections.abc import Mapping
from pathlib import Path

from estream_lab.errors import EStreamError
from estream_lab.trace import check_writable


def check_results(results: Mapping[str, Path | None], read: Mapping[str, Path | None]) -> None:
    """Check the files that results will be written to; None is a result that nobody wants.

    Args:
        results: by option, in the order in which messages name them.
        read: what the command reads, by option: files, and folders such as a store.

    Raises:
        EStreamError: a file that can't be written, that two results would go to, that the command reads, or that lies
            in a folder which it reads.
    """
    inputs = {os.path.realpath(path): option for option, path in read.items() if path is not None}
    taken: dict[str, str] = {}
    for option, path in results.items():
        if path is None:
            continue
        real = os.path.realpath(path)
        other = taken.setdefault(real, option)
        if other != option:
            raise EStreamError(f"{other} and {option} would both be written to {path}: give each a file of its own")
        for place in (real, *map(str, Path(real).parents)):
            if place in inputs:
                raise EStreamError(
                    f"{option} would be written to {path}, which {inputs[place]} is read from: give it another place"
                )
        check_writable(path)
