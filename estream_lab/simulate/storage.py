"""How long reads take on a virtual clock: each its own time, or all of them sharing a bandwidth."""

import math
from dataclasses import dataclass
from typing import Protocol

from estream_lab.errors import EStreamError


class Reads(Protocol):
    """The reads under way, by bank."""

    def start(self, bank: int, now: int, service_ns: int, count: int) -> None:
        """A read of ``count`` bytes into ``bank``, which took ``service_ns`` when it was measured, starts now."""
        ...

    def next_end(self) -> int | None:
        """When the next read ends if no other starts, in ns; None if there is none."""
        ...

    def ended(self, now: int) -> list[int]:
        """The banks whose reads have ended by ``now``, in order of their end; they are under way no longer."""
        ...


class Storage(Protocol):
    """A model of storage: opens an account of reads under way."""

    def open(self) -> Reads:
        """Storage at rest."""
        ...


@dataclass(frozen=True)
class OwnTimes:
    """Every read takes the service time that it is given, whatever else is read: the recurrence's L_k."""

    def open(self) -> Reads:
        """See `Storage`."""
        return _Own()


@dataclass(frozen=True)
class SharedBandwidth:
    """Outstanding reads share one bandwidth evenly, so that a lone one is as fast as all of several together.

    Attributes:
        bytes_per_second: of all reads together.
        latency_ns: what each read takes on top, before its first byte comes.

    Raises:
        EStreamError: no bandwidth, or a latency below 0.
    """

    bytes_per_second: float
    latency_ns: int = 0

    def __post_init__(self) -> None:
        if not (self.bytes_per_second > 0 and math.isfinite(self.bytes_per_second)) or self.latency_ns < 0:
            raise EStreamError(
                f"reads can't share {self.bytes_per_second:g} bytes/s after {self.latency_ns} ns: give a bandwidth "
                "above 0 and a latency of 0 or more"
            )

    def open(self) -> Reads:
        """See `Storage`."""
        return _Shared((self.bytes_per_second / 1e9,), self.latency_ns)


@dataclass(frozen=True)
class DepthBandwidth:
    """Outstanding reads share evenly a bandwidth that depends on how many they are: flash is faster with several.

    Attributes:
        bytes_per_second: of all reads together, with one, two, … of them outstanding; with more than are listed, the
            last.
        latency_ns: what each read takes on top, before its first byte comes; until then it isn't counted.

    Raises:
        EStreamError: no bandwidth, one that falls with more reads, or a latency below 0.
    """

    bytes_per_second: tuple[float, ...]
    latency_ns: int = 0

    def __post_init__(self) -> None:
        if not self.bytes_per_second:
            raise EStreamError("reads need a bandwidth: give that of one outstanding read, of two, and so on")
        for rate in self.bytes_per_second:
            SharedBandwidth(rate, self.latency_ns)  # refuses what is none
        if list(self.bytes_per_second) != sorted(self.bytes_per_second):
            listed = ", ".join(f"{rate:g}" for rate in self.bytes_per_second)
            raise EStreamError(
                f"more outstanding reads are never slower together, but {listed} bytes/s fall: sort them"
            )

    def open(self) -> Reads:
        """See `Storage`."""
        return _Shared(tuple(rate / 1e9 for rate in self.bytes_per_second), self.latency_ns)


class _Own:
    def __init__(self) -> None:
        self._ends: dict[int, int] = {}

    def start(self, bank: int, now: int, service_ns: int, count: int) -> None:
        self._ends[bank] = now + service_ns

    def next_end(self) -> int | None:
        return min(self._ends.values(), default=None)

    def ended(self, now: int) -> list[int]:
        over = sorted((end, bank) for bank, end in self._ends.items() if end <= now)
        for _, bank in over:
            del self._ends[bank]
        return [bank for _, bank in over]


class _Shared:
    """Reads that wait for their first byte, and the bytes left of those that flow; ends are rounded up to whole ns."""

    def __init__(self, rates: tuple[float, ...], latency_ns: int) -> None:
        self._rates, self._latency = rates, latency_ns  # bytes/ns of all together, by how many flow
        self._waiting: dict[int, tuple[int, float]] = {}  # bank: when it starts to flow, bytes
        self._left: dict[int, float] = {}
        self._at = 0

    def start(self, bank: int, now: int, service_ns: int, count: int) -> None:
        self._flow_until(now)
        self._waiting[bank] = (now + self._latency, max(float(count), self._rates[-1]))  # 1 ns at least
        self._flow_until(now)

    def next_end(self) -> int | None:
        """Exact while no read is about to flow; before that, no later than that moment is looked ahead."""
        flows = [start for start, _ in self._waiting.values()]
        if self._left:
            flows.append(self._at + math.ceil(min(self._left.values()) / self._share))
        return min(flows, default=None)

    def ended(self, now: int) -> list[int]:
        self._flow_until(now)
        over = [bank for bank, left in self._left.items() if left <= 1e-6]  # bytes: what floats leave over
        for bank in over:
            del self._left[bank]
        return over

    @property
    def _share(self) -> float:
        """Bytes/ns of each read that flows; there is one."""
        flowing = len(self._left)
        return self._rates[min(flowing, len(self._rates)) - 1] / flowing

    def _flow_until(self, now: int) -> None:
        """Let bytes flow; a read whose latency is over joins on the way. No read may end before ``now``."""
        while True:
            joining = min((start for start, _ in self._waiting.values() if start <= now), default=None)
            until = now if joining is None else joining
            if self._left:
                flowed = (until - self._at) * self._share
                self._left = {bank: left - flowed for bank, left in self._left.items()}
            self._at = until
            if joining is None:
                return
            for bank, (start, count) in list(self._waiting.items()):
                if start == joining:
                    self._left[bank] = count
                    del self._waiting[bank]
