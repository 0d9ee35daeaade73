"""Spans and traces: what every lane emits, whichever clock it reads."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from estream_lab.errors import EStreamError
from estream_lab.trace.atomic import write_atomically
from estream_lab.trace.intervals import union_ns

Provenance = Mapping[str, str | int | float | bool]

CLOCKS = ("host", "qtimer", "simulated", "modelled", "order")
"""`order` numbers steps in sequence: its "nanoseconds" are steps, and carry no time."""

UNITS = ("request", "dense", "expert", "wait", "storage", "plan")
"""The units that every lane uses; a lane may add its own (DMA, vector, matrix).

Spans of "plan" take no time. Each names a group that the router gave work ("routed", with its rows), whose read was
asked for ("issued": a worker may start it a little later), or that was in a bank from before ("kept"); or a layer whose
banks have been given up ("ended").
"""

FORMAT = "estream-trace"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that one unit did, on one clock.

    `start_ns` counts from the clock's own origin; the optional fields say which layer, expert group, bank, slot,
    expert, tile, how many routed rows and how many bytes the span concerns.
    """

    lane: str
    clock: str
    unit: str
    name: str
    start_ns: int
    duration_ns: int
    request: int = 0
    layer: int | None = None
    group: int | None = None
    bank: int | None = None
    slot: int | None = None
    expert: int | None = None
    tile: int | None = None
    rows: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        if self.clock not in CLOCKS:
            raise ValueError(f"span clock {self.clock!r} is not one of {', '.join(CLOCKS)}")
        if type(self.start_ns) is not int or type(self.duration_ns) is not int:  # floats would lose nanoseconds
            raise TypeError(f"span {self.name!r}: start_ns and duration_ns are Python integers")
        if self.duration_ns < 0:
            raise ValueError(f"span {self.name!r} ends {-self.duration_ns} ns before it starts")

    @property
    def end_ns(self) -> int:
        """Start plus duration, in ns of the span's clock."""
        return self.start_ns + self.duration_ns

    def details(self) -> dict[str, int]:
        """The optional fields that are set, by name, in the order of the schema."""
        values = {name: getattr(self, name) for name in DETAILS}
        return {name: value for name, value in values.items() if value is not None}


FIELDS = tuple(item.name for item in fields(Span))
DETAILS = FIELDS[FIELDS.index("layer") :]


@dataclass(frozen=True, slots=True)
class Anchor:
    """One instant read on a foreign clock and on the host's, both in ns."""

    clock: str
    clock_ns: int
    host_ns: int


@dataclass(frozen=True)
class Trace:
    """What happened in a run, and where it comes from.

    `spans` are kept sorted by start (longer first where starts are equal, so that a span precedes what it contains).
    `provenance` says lane, machine, model, schedule and so on; `anchors` tie foreign clocks to the host's.
    """

    spans: tuple[Span, ...] = ()
    provenance: dict[str, str | int | float | bool] = field(default_factory=dict)
    anchors: tuple[Anchor, ...] = ()

    def __post_init__(self) -> None:
        for key, value in self.provenance.items():
            if type(value) not in (str, int, float, bool) or (type(value) is float and not math.isfinite(value)):
                raise TypeError(
                    f"trace provenance {key!r} is {value!r}: text, a finite number or a truth value is needed"
                )
        ordered = sorted(self.spans, key=lambda span: (span.start_ns, -span.duration_ns))
        object.__setattr__(self, "spans", tuple(ordered))
        object.__setattr__(self, "provenance", dict(self.provenance))
        object.__setattr__(self, "anchors", tuple(self.anchors))

    def select(self, unit: str | None = None, layer: int | None = None, name: str | None = None) -> tuple[Span, ...]:
        """The spans of a unit, a layer, a name (each where given), sorted by start."""
        return tuple(
            span
            for span in self.spans
            if (unit is None or span.unit == unit)
            and (layer is None or span.layer == layer)
            and (name is None or span.name == name)
        )

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """(start, end) of each request; without a 'request' span the one from the first start to the last end."""
        requests = tuple((span.start_ns, span.end_ns) for span in self.select("request"))
        if requests or not self.spans:
            return requests
        return ((self.spans[0].start_ns, max(span.end_ns for span in self.spans)),)

    @property
    def request_ns(self) -> int:
        """Time covered by the requests, in ns (0 for an empty trace)."""
        return union_ns(self.windows)

    def to_json(self, path: Path | str) -> None:
        """Write the trace as one JSON file, from which `from_json` gives back an equal trace."""
        rows = [[getattr(span, name) for name in FIELDS] for span in self.spans]
        document = {
            "format": FORMAT,
            "version": VERSION,
            "provenance": self.provenance,
            "anchors": [[item.clock, item.clock_ns, item.host_ns] for item in self.anchors],
            "fields": FIELDS,
            "spans": rows,
        }
        write_atomically(path, json.dumps(document, allow_nan=False).encode("ascii") + b"\n")

    @classmethod
    def from_json(cls, path: Path | str) -> Self:
        """Read a file written by `to_json`. Raises `EStreamError` for any other file."""
        document = _read(Path(path))
        try:
            anchors = tuple(Anchor(*row) for row in document["anchors"])
            spans = tuple(Span(**dict(zip(document["fields"], row, strict=True))) for row in document["spans"])
            return cls(spans, document["provenance"], anchors)
        except (KeyError, TypeError, ValueError) as error:
            raise EStreamError(f"{path} is a damaged trace ({error}); record it again.") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise EStreamError(f"Cannot read the trace {path}: {error.strerror}; check the path.") from error
    except ValueError as error:
        raise EStreamError(
            f"{path} is not a trace: it is no JSON; give a file by estream prefill --trace NAME.estream-trace."
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise EStreamError(
            f"{path} is not a trace of EStream Lab; give a file by estream prefill --trace NAME.estream-trace."
        )
    if document.get("version") != VERSION:
        found = document.get("version")
        raise EStreamError(f"{path} is a trace of version {found}, this release reads {VERSION}; record it again.")
    return document
