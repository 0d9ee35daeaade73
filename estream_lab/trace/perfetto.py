"""Export to Perfetto's protobuf, in exact nanoseconds: open the file at ui.perfetto.dev or with trace_processor.

Source: perfetto `TracePacket`, `TrackDescriptor`, `TrackEvent`, `TraceAttributes`, built with the `perfetto` package.
"""

import json
from pathlib import Path
from typing import Any

from estream_lab.trace.atomic import write_atomically
from estream_lab.trace.schema import Trace
from estream_lab.trace.tracks import Track, tracks

SEQUENCE = 1


def write_perfetto(trace: Trace, path: Path | str) -> None:
    """Write `trace` as a Perfetto file: a process per lane, clock and request; a track per unit and overlap.

    Slice times are ns since the request's start, lifted by a constant where spans lie before it (Perfetto's
    timestamps are unsigned). Provenance, clock origins and anchors are trace attributes `estream.*`.
    """
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder  # its schema takes a moment to load

    builder = TraceProtoBuilder()
    lines = tracks(trace)
    lift = max((line.origin_ns - line.spans[0].start_ns for line in lines), default=0)
    _attributes(builder.add_packet(), trace, lines, max(lift, 0))
    processes = list(dict.fromkeys((line.lane, line.clock, line.request) for line in lines))
    for number, (lane, clock, request) in enumerate(processes, 1):
        descriptor = _packet(builder).track_descriptor
        descriptor.uuid = number
        descriptor.process.pid = number
        descriptor.process.process_name = f"{lane} ({clock} clock), request {request}"
        descriptor.child_ordering = descriptor.EXPLICIT
    events: list[tuple[int, int, bool, Any]] = []
    for number, line in enumerate(lines, len(processes) + 1):
        descriptor = _packet(builder).track_descriptor
        descriptor.uuid = number
        descriptor.parent_uuid = processes.index((line.lane, line.clock, line.request)) + 1
        descriptor.name = line.name
        descriptor.sibling_order_rank = number
        descriptor.disallow_merging_with_system_tracks = True
        events.extend(_edges(line, number, max(lift, 0)))
    events.sort(key=lambda event: event[0])  # stable: on one track an end stays before the start that touches it
    for timestamp, uuid, begins, span in events:
        packet = _packet(builder)
        packet.timestamp = timestamp
        _event(packet.track_event, uuid, begins, span)
    write_atomically(path, builder.serialize())


def _packet(builder: Any) -> Any:
    packet = builder.add_packet()
    packet.trusted_packet_sequence_id = SEQUENCE
    return packet


def _edges(line: Track, uuid: int, lift: int) -> list[tuple[int, int, bool, Any]]:
    """(timestamp, track, begins?, span) for both ends of every span, in the order in which the track lives them."""
    shift = lift - line.origin_ns
    edges = []
    for span in line.spans:
        edges.append((span.start_ns + shift, uuid, True, span))
        edges.append((span.end_ns + shift, uuid, False, span))
    return edges


def _event(event: Any, uuid: int, begins: bool, span: Any) -> None:
    event.track_uuid = uuid
    if not begins:
        event.type = event.TYPE_SLICE_END
        return
    event.type = event.TYPE_SLICE_BEGIN
    event.name = span.name
    event.categories.append(span.unit)
    for name, value in span.details().items():
        note = event.debug_annotations.add()
        note.name = name
        note.int_value = value


def _attributes(packet: Any, trace: Trace, lines: tuple[Track, ...], lift: int) -> None:
    values: dict[str, str | int | float | bool] = {f"estream.{key}": value for key, value in trace.provenance.items()}
    for line in lines:
        values[f"estream.origin_ns.{line.clock}"] = line.origin_ns - lift
    for number, anchor in enumerate(trace.anchors):
        values[f"estream.anchor.{number}"] = f"{anchor.clock} {anchor.clock_ns} ns = host {anchor.host_ns} ns"
    for key, value in values.items():
        attribute = packet.trace_attributes.attribute.add()
        attribute.key = key
        if type(value) is int and -(2**63) <= value < 2**63:
            attribute.long_value = value
        else:
            attribute.string_value = value if isinstance(value, str) else json.dumps(value)
