"""The bar of a prefill: steps done, and a sign of life while one of them takes long."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

DELAY_SECONDS = 1.0  # what is done sooner needs no bar
PULSE_SECONDS, LOG_SECONDS = 0.5, 10.0  # between signs of life on a terminal, and in a file


@contextmanager
def progress(steps: int, arrived_bytes: Callable[[], int], shown: bool) -> "Iterator[tqdm[Any]]":
    """A bar on standard error, a step a layer of each chunk, with rate and remaining time.

    From slow storage a layer may take minutes: a thread of its own shows how much has been read meanwhile.

    Args:
        steps: in all.
        arrived_bytes: tells how many bytes have been read so far.
        shown: whether there is anything to see.
    """
    pause = PULSE_SECONDS if sys.stderr.isatty() else LOG_SECONDS
    with tqdm(total=steps, unit="layer", desc="prefill", leave=False, delay=DELAY_SECONDS, disable=not shown) as bar:
        if not shown:
            yield bar
            return
        over, before = threading.Event(), arrived_bytes()

        def pulse() -> None:
            while not over.wait(pause):
                bar.set_postfix_str(f"{(arrived_bytes() - before) / 1e6:.1f} MB read")

        thread = threading.Thread(target=pulse, name="estream-progress", daemon=True)
        thread.start()
        try:
            yield bar
        finally:
            over.set()
            thread.join(PULSE_SECONDS)  # standard error may be a pipe that nobody reads
