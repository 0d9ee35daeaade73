"""What each bank held when, read off a trace's reads and expert invocations."""

from collections.abc import Iterator

from estream_lab.trace import Span, Trace


def bank_states(trace: Trace) -> Iterator[Span]:
    """The states of every bank, by bank and time: spans whose name is `filling`, `ready` or `in use`.

    A bank is filling while a read into it runs, in use while an invocation on it runs, and ready between the two and
    between invocations of one fill. A fill that no invocation uses shows no ready state: when it was dropped is not
    recorded.
    """
    spans = [span for span in trace.spans if span.bank is not None and span.unit in ("storage", "expert")]
    for bank in sorted({span.bank for span in spans if span.bank is not None}):
        since: int | None = None  # the data has been there, unused, since then
        for span in (span for span in spans if span.bank == bank):
            if span.unit == "storage":
                yield _state(span, "filling")
            else:
                if since is not None and since < span.start_ns:
                    yield Span(
                        span.lane, span.clock, span.unit, "ready", since, span.start_ns - since, span.request,
                        span.layer, span.group, span.bank, span.slot, span.expert, span.tile,
                    )  # fmt: skip
                yield _state(span, "in use")
            since = span.end_ns


def _state(span: Span, name: str) -> Span:
    """The span under another name; `dataclasses.replace` takes three times as long, which a slider feels."""
    return Span(
        span.lane, span.clock, span.unit, name, span.start_ns, span.duration_ns, span.request, span.layer, span.group,
        span.bank, span.slot, span.expert, span.tile, span.rows, span.bytes,
    )  # fmt: skip
