"""A made-up device and model with round numbers, on which times can be worked out by hand."""

import numpy as np
from hypothesis import strategies as st

from estream_lab.simulate.device import UNITS, Device, Number
from estream_lab.simulate.models import ModelShape
from estream_lab.simulate.workload import Workload

VALUES = {
    "read_latency": 0, "bank_synchronisation": 3, "dense_rate": 2e9, "expert_rate": 12e9, "group_overhead": 5,
    "runtime_memory": 1000, "dense_weight": 0.5, "vtcm": 8 << 20, "dma_rate": 2e9, "dma_latency": 10,
    "decode_rate": 4e9, "vector_rate": 1e9, "matrix_rate": 64e9,
}  # fmt: skip
"""2 FLOP/ns of non-expert work, 12 of expert work, 5 ns a group, 3 ns a bank."""


def device(*bandwidths: float, **values: float) -> Device:
    """By default one read alone has 1 byte/ns, several 2 bytes/ns together."""
    numbers = {name: Number(value, UNITS[name], "assumed", "made up") for name, value in {**VALUES, **values}.items()}
    rates = bandwidths or (1e9, 2e9)
    reads = tuple(Number(rate, "bytes/s", "assumed", "made up") for rate in rates)
    return Device("made-up", "a made-up device", "nothing real", None, reads, numbers)


MODEL = ModelShape(
    title="made-up", layers=2, experts=5, top_k=2, hidden=1, ffn=1, expert_bytes=100, dense_weights=10.0,
    attention_width=4.0, lead_weights=8, lead_attention=0, embedding_weights=22, kv_bytes=6,
)  # fmt: skip
"""A route is 6 FLOP; a layer's non-expert work of T tokens 20·T + 4·T·(T + 1)."""


def workload(*loads: list[int], tokens: int = 4, model: ModelShape = MODEL) -> Workload:
    """Given loads, one list a layer; the same in both layers where there is one."""
    rows = list(loads) if len(loads) > 1 else [*loads] * model.layers
    return Workload(model, tokens, np.array(rows, np.int64), "made up")


@st.composite
def drawn_devices(draw: st.DrawFn) -> Device:
    """With up to twice the bandwidth for several reads, and what costs nothing on the others."""
    one = draw(st.floats(0.3e9, 3e9))
    return device(
        one, one * draw(st.floats(1, 2)), bank_synchronisation=draw(st.integers(0, 9)),
        read_latency=draw(st.sampled_from([0, 0, 7])), group_overhead=draw(st.integers(0, 30)),
    )  # fmt: skip
