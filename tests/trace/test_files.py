"""The end of a name says what is written."""

import json
from pathlib import Path

from estream_lab.trace import KINDS, Span, Trace, write_chrome, write_perfetto, write_trace

TRACE = Trace((Span("host", "host", "request", "prefill", 5, 10),), {"machine": "made up"})


def test_a_file_of_our_own_gives_back_the_same_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.estream-trace"
    write_trace(TRACE, path)
    assert Trace.from_json(path) == TRACE
    assert path.suffix in KINDS


def test_other_ends_are_for_viewers(tmp_path: Path) -> None:
    for name, write in (("a.json", write_chrome), ("a.perfetto-trace", write_perfetto), ("a", write_perfetto)):
        write_trace(TRACE, tmp_path / name)
        write(TRACE, tmp_path / "expected")
        assert (tmp_path / name).read_bytes() == (tmp_path / "expected").read_bytes()
    assert "traceEvents" in json.loads((tmp_path / "a.json").read_text())
