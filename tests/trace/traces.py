"""Hypothesis strategies for spans and traces."""

from hypothesis import strategies as st

from estream_lab.trace import CLOCKS, UNITS, Anchor, Span, Trace

TIMES = st.integers(0, 2**45) | st.integers(0, 40)  # large as a host clock's, and small so that ends meet starts
OPTIONAL = st.none() | st.integers(0, 2**40)
VALUES = (
    st.text(max_size=8)
    | st.integers(-(2**70), 2**70)
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
)


@st.composite
def spans(draw: st.DrawFn, clocks: tuple[str, ...] = CLOCKS) -> Span:
    base = draw(st.sampled_from([0, 7 * 10**15]))  # a host that has been up for months
    return Span(
        lane=draw(st.sampled_from(["host", "device"])),
        clock=draw(st.sampled_from(clocks)),
        unit=draw(st.sampled_from((*UNITS, "dma"))),
        name=draw(st.text(max_size=6)),
        start_ns=base + draw(TIMES),
        duration_ns=draw(TIMES),
        request=draw(st.integers(0, 1)),
        layer=draw(OPTIONAL),
        group=draw(OPTIONAL),
        bank=draw(OPTIONAL),
        rows=draw(OPTIONAL),
        bytes=draw(OPTIONAL),
    )


ANCHORS = st.builds(Anchor, st.sampled_from(CLOCKS), TIMES, TIMES)
TRACES = st.builds(
    Trace,
    st.lists(spans(), max_size=12).map(tuple),
    st.dictionaries(st.text(max_size=8), VALUES, max_size=4),
    st.lists(ANCHORS, max_size=2).map(tuple),
)
