"""The file of a sweep: a line of JSON that says what is measured, then one for each sample, written as it comes."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from estream_lab.errors import EStreamError
from estream_lab.tuning.grids import Configuration

FORMAT = "estream-sweep"
VERSION = 1


@dataclass(frozen=True)
class SweepSample:
    """One request.

    Attributes:
        round: that it was measured in, from 0. queue_depth, banks, group_size: Q, B and G.
        seconds: of the request. peak_rss_bytes: of the process during it. arena_bytes: of its arena.
        storage_idle: share of the request. logits_sha256: of the output, the same for all.
    """

    round: int
    queue_depth: int
    banks: int
    group_size: int
    seconds: float
    peak_rss_bytes: int
    arena_bytes: int
    storage_idle: float
    logits_sha256: str

    @property
    def configuration(self) -> Configuration:
        """Its (Q, B, G)."""
        return Configuration(self.queue_depth, self.banks, self.group_size)


class SamplesFile:
    """A file of samples, held against other processes; `open_samples` gives one.

    Attributes:
        samples: those that were in it, and those that were added.
        dropped_bytes: of a last line that a stop had cut off.
    """

    def __init__(self, file: IO[bytes], samples: list[SweepSample], dropped_bytes: int) -> None:
        self._file, self.samples, self.dropped_bytes = file, samples, dropped_bytes

    def add(self, sample: SweepSample) -> None:
        """Append a sample; it is on disk when this returns."""
        _write(self._file, asdict(sample))
        self.samples.append(sample)


@contextmanager
def open_samples(path: Path, subject: dict[str, Any]) -> Iterator[SamplesFile]:
    """The file of a sweep, made if it isn't there, else gone on with.

    Args:
        path: of the file. subject: what is measured, as plain types; a file of another subject is refused.

    Raises:
        EStreamError: it can't be written, holds something else, or another process is writing it.
    """
    try:
        file = open(path, "a+b")  # noqa: SIM115 - closed below
    except OSError as error:
        raise EStreamError(f"can't write {path}: {error.strerror}; give the path of a file") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EStreamError(f"another process is writing {path}: wait for its end, or give another file") from error
        file.seek(0)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        header = {"format": FORMAT, "version": VERSION, **subject}
        samples = _parse(whole, header, path) if whole else []
        if not whole and content and not json.dumps(header).encode().startswith(content):
            raise EStreamError(f"{path} is no sweep of EStream Lab: give another file")
        file.truncate(len(whole))
        if not whole:
            _write(file, header)
        yield SamplesFile(file, samples, len(content) - len(whole))


def read_samples(path: Path) -> tuple[dict[str, Any], list[SweepSample]]:
    """What a sweep measured, and its samples; a last line that was cut off is left out.

    Raises:
        EStreamError: a file that can't be read, or is something else.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EStreamError(f"can't read {path}: {error.strerror}; make it with estream sweep") from error
    whole = content[: content.rfind(b"\n") + 1]
    header = _header(whole, path)
    subject = {key: value for key, value in header.items() if key not in ("format", "version")}
    return subject, _parse(whole, header, path)


def _write(file: IO[bytes], row: dict[str, Any]) -> None:
    file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _header(whole: bytes, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(whole.partition(b"\n")[0])
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise EStreamError(f"{path} is no sweep of EStream Lab: give another file")
    if header.get("version") != VERSION:
        raise EStreamError(
            f"{path} is a sweep of version {header.get('version')}, and this release reads {VERSION}: give another file"
        )
    return header


def _parse(whole: bytes, header: dict[str, Any], path: Path) -> list[SweepSample]:
    """The samples of a file whose lines are whole and that measures what ``header`` says."""
    found = _header(whole, path)
    for key, value in header.items():
        if found.get(key) != value:
            raise EStreamError(
                f"{path} is a sweep of another {key.replace('_', ' ')} ({_short(found.get(key))}, and this is of "
                f"{_short(value)}): give another file"
            )
    samples = []
    for number, line in enumerate(whole.splitlines()[1:], 2):
        try:
            samples.append(SweepSample(**json.loads(line)))
        except (TypeError, ValueError) as error:
            raise EStreamError(
                f"line {number} of {path} is no sample ({error}): remove it, or give another file"
            ) from error
    return samples


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
