"""Progress of a bench that has several parts."""

import sys

from tqdm import tqdm


class PartsBar:
    """One progress bar for each part of the work."""

    def __init__(self) -> None:
        self._part, self._bar = "", tqdm(disable=True)

    def __enter__(self) -> "PartsBar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def show(self, part: str, done: int, total: int) -> None:
        """Show `done` of `total` of a part."""
        if part != self._part:
            self._bar.close()
            pause = 0.1 if sys.stderr.isatty() else 10  # seconds: a log file isn't a terminal
            self._part, self._bar = part, tqdm(total=total, desc=part, unit="run", mininterval=pause)
        self._bar.update(done - self._bar.n)
