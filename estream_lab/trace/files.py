"""Files of traces: the end of a name says what is written."""

from pathlib import Path

from estream_lab.trace.chrome import write_chrome
from estream_lab.trace.perfetto import write_perfetto
from estream_lab.trace.schema import Trace

OWN = ".estream-trace"
"""The end of a file that gives back the same trace: `Trace.from_json` reads it, and `estream simulate --replay`."""

KINDS = f"{OWN}, .json for Chrome, else Perfetto"
"""What a command says of its option for a trace."""


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace as the end of the name asks for it: see `KINDS`."""
    if path.suffix == OWN:
        trace.to_json(path)
    elif path.suffix == ".json":
        write_chrome(trace, path)
    else:
        write_perfetto(trace, path)
