from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from estream_lab.trace import Span, Trace, write_perfetto

from .traces import TRACES


def parse(trace: Trace, factory: pytest.TempPathFactory) -> Any:
    path = factory.getbasetemp() / "trace.perfetto"
    write_perfetto(trace, path)
    message = pb.Trace()
    message.ParseFromString(path.read_bytes())
    return message


def attributes(message: Any) -> dict[str, Any]:
    items = [item for packet in message.packet for item in packet.trace_attributes.attribute]
    return {item.key: item.long_value if item.HasField("long_value") else item.string_value for item in items}


def slices(message: Any) -> dict[int, list[tuple[str, str, int, int, dict[str, int]]]]:
    """Per track, its slices as (unit, name, start, end, details); refuses an end without a begin, and nesting."""
    result = defaultdict(list)
    opened: dict[int, tuple[int, Any]] = {}
    clock = 0
    for packet in message.packet:
        if not packet.HasField("track_event"):
            continue
        assert packet.timestamp >= clock
        clock = packet.timestamp
        event = packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in opened, "two slices overlap on one track"
            opened[event.track_uuid] = packet.timestamp, event
        else:
            start, begin = opened.pop(event.track_uuid)
            details = {note.name: note.int_value for note in begin.debug_annotations}
            result[event.track_uuid].append((begin.categories[0], begin.name, start, packet.timestamp, details))
    assert not opened
    return result


@given(trace=TRACES)
def test_every_span_is_found_exactly_and_none_overlap_on_a_track(
    trace: Trace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    message = parse(trace, tmp_path_factory)
    descriptors = {
        p.track_descriptor.uuid: p.track_descriptor for p in message.packet if p.HasField("track_descriptor")
    }
    notes = attributes(message)
    found: Counter[tuple[Any, ...]] = Counter()
    for uuid, items in slices(message).items():
        process = descriptors[descriptors[uuid].parent_uuid].process.process_name
        lane, clock = process.split(" clock)")[0].split(" (")
        origin = notes[f"estream.origin_ns.{clock}"]
        for unit, name, start, end, details in items:
            found[lane, clock, unit, name, start + origin, end - start, tuple(details.items())] += 1
    wanted = Counter(
        (s.lane, s.clock, s.unit, s.name, s.start_ns, s.duration_ns, tuple(s.details().items())) for s in trace.spans
    )
    assert found == wanted


def test_provenance_is_carried_as_attributes(tmp_path_factory: pytest.TempPathFactory) -> None:
    trace = Trace((), {"lane": "host", "tokens": 512, "direct_io": True, "share": 0.5, "huge": 2**70})
    assert attributes(parse(trace, tmp_path_factory)) == {
        "estream.lane": "host",
        "estream.tokens": 512,
        "estream.direct_io": "true",
        "estream.share": "0.5",
        "estream.huge": str(2**70),
    }


def test_overlapping_reads_get_named_tracks_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    reads = tuple(Span("host", "host", "storage", "read", start, 10) for start in (0, 5, 10))
    message = parse(Trace(reads), tmp_path_factory)
    names = {p.track_descriptor.uuid: p.track_descriptor.name for p in message.packet if p.HasField("track_descriptor")}
    assert {names[uuid]: [item[2:4] for item in items] for uuid, items in slices(message).items()} == {
        "storage": [(0, 10), (10, 20)],
        "storage 2": [(5, 15)],
    }
