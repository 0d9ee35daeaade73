"""Collects spans from the threads of a run."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from estream_lab.trace.schema import Provenance, Span, Trace


class Recorder:
    """Thread-safe collector of the spans of one request on one lane and clock.

    Host times are `time.perf_counter_ns()`; `Recorder.now()` reads it.
    """

    def __init__(self, lane: str, clock: str = "host", request: int = 0) -> None:
        self.lane = lane
        self.clock = clock
        self.request = request
        self._spans: list[tuple[Any, ...]] = []  # unit, name, start, end, details; appending is one step for threads

    @staticmethod
    def now() -> int:
        """The host clock in ns: monotonic, the same for all threads."""
        return time.perf_counter_ns()

    def add(
        self,
        unit: str,
        name: str,
        start_ns: int,
        end_ns: int,
        *,
        layer: int | None = None,
        group: int | None = None,
        bank: int | None = None,
        slot: int | None = None,
        expert: int | None = None,
        tile: int | None = None,
        rows: int | None = None,
        bytes: int | None = None,
    ) -> None:
        """Record that `unit` did `name` from `start_ns` to `end_ns`, in ns of the recorder's clock.

        Integers of NumPy are taken too. Raises `ValueError` for an end before the start.
        """
        if end_ns < start_ns:
            raise ValueError(f"{name!r} of {unit} ends {start_ns - end_ns} ns before it starts")
        # A span is made of it when somebody looks: here it would cost the layer loop ten times as much.
        self._spans.append((unit, name, start_ns, end_ns, layer, group, bank, slot, expert, tile, rows, bytes))

    @contextmanager
    def span(self, unit: str, name: str, **fields: int | None) -> Iterator[None]:
        """Record the time that the body takes on the host clock, also where it raises."""
        if self.clock != "host":
            raise ValueError(f"a recorder on the {self.clock} clock cannot time a block: call add with its times")
        start = self.now()
        try:
            yield
        finally:
            self.add(unit, name, start, self.now(), **fields)

    def trace(self, provenance: Provenance) -> Trace:
        """Everything recorded so far, with its provenance (the recorder's lane is filled in where absent)."""
        return Trace(tuple(self._made(*span) for span in self._spans), {"lane": self.lane, **provenance})

    def _made(self, unit: str, name: str, start_ns: int, end_ns: int, *details: int | None) -> Span:
        start = int(start_ns)
        numbers = [None if value is None else int(value) for value in details]
        return Span(self.lane, self.clock, unit, name, start, int(end_ns) - start, self.request, *numbers)
