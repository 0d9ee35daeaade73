"""The one event schema of every lane, its two idle metrics and its exports."""

from estream_lab.trace.atomic import check_writable, write_atomically
from estream_lab.trace.chrome import write_chrome
from estream_lab.trace.files import KINDS, write_trace
from estream_lab.trace.intervals import union_ns
from estream_lab.trace.metrics import npu_idle, storage_idle
from estream_lab.trace.perfetto import write_perfetto
from estream_lab.trace.recorder import Recorder
from estream_lab.trace.schema import CLOCKS, UNITS, Anchor, Provenance, Span, Trace
from estream_lab.trace.tracks import Track, assign_tracks, tracks

__all__ = [
    "CLOCKS",
    "KINDS",
    "UNITS",
    "Anchor",
    "Provenance",
    "Recorder",
    "Span",
    "Trace",
    "Track",
    "assign_tracks",
    "check_writable",
    "npu_idle",
    "storage_idle",
    "tracks",
    "union_ns",
    "write_atomically",
    "write_chrome",
    "write_perfetto",
    "write_trace",
]
