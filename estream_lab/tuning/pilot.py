"""A first request that tells which read bandwidths are worth declaring, and how long a trial will take."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.machine import available_cpus
from estream_lab.streaming import Store
from estream_lab.trace import write_atomically

REQUESTS = 3
OVERLAP = 0.75  # of the shorter of reading and computing, what hides behind the other over all configurations, about


@dataclass(frozen=True)
class Pilot:
    """What a request took at the disk's own speed, the one that was disturbed least.

    Attributes:
        open_seconds: of an engine. computing_seconds: of the request, without waits. needed_bytes: that it read.
    """

    open_seconds: float
    computing_seconds: float
    needed_bytes: int

    @property
    def balanced_bandwidth(self) -> float:
        """Bytes/s at which reading takes as long as computing."""
        return self.needed_bytes / self.computing_seconds

    def sample_seconds(self, read_bandwidth: float) -> float:
        """About what a sample takes at a bandwidth: an engine is opened, and runs two requests."""
        parts = (self.computing_seconds, self.needed_bytes / read_bandwidth)
        return self.open_seconds + 2 * (max(parts) + (1 - OVERLAP) * min(parts))


def pilot(store: Store, tokens: NDArray[np.int32], threads: int | None, path: Path, *, prompt: str) -> Pilot:
    """The pilot that ``path`` keeps, else one that is measured and kept there; ``prompt`` says what the tokens are.

    Raises:
        EStreamError: settings that the store can't be run with, storage that fails, or a file of something else.
    """
    told = {"prompt": prompt, "threads": threads or available_cpus()}
    if path.exists():
        return _kept(path, told)
    with PrefillEngine.open(store, threads=threads):  # kernels are loaded, or compiled
        pass
    start = time.perf_counter()
    with PrefillEngine.open(store, threads=threads) as engine:
        opened = time.perf_counter() - start
        engine.prefill(tokens)
        results = [engine.prefill(tokens) for _ in range(REQUESTS)]
    computing = min(result.seconds * (1 - result.npu_idle) for result in results)
    found = Pilot(opened, computing, results[0].bytes_needed)
    write_atomically(path, json.dumps({**told, "pilot": asdict(found)}).encode() + b"\n")
    return found


def _kept(path: Path, told: dict[str, Any]) -> Pilot:
    """The pilot of a file, measured with what is ``told``."""
    try:
        document = json.loads(path.read_bytes())
        found = Pilot(**document.pop("pilot"))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise EStreamError(f"{path} keeps no pilot ({error!r}): remove it") from error
    if document != told:
        raise EStreamError(f"{path} is the pilot of another prompt or threads: give another --folder")
    return found
