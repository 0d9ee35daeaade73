"""Records: gate, up and down in execution layout, nothing else."""

from pathlib import Path

import numpy as np

from estream_lab.experts import ExpertShape, RecordClass
from estream_lab.kernels.layout import unpack_f32, unpack_q4_32x32
from estream_lab.kernels.quant import quantise_q4_0
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.streaming import Store
from estream_lab.streaming.record import pack_record
from tests.stores import SPEC, synthetic_store


def test_records_hold_the_quantised_projections_in_order() -> None:
    record = RecordClass.of(ExpertShape(64, 32, ("q4-32x32",) * 3))
    gate, up, down = SyntheticSource(SPEC, 0).expert(1, 7)
    content = pack_record((gate, up, down), record, "q4_0")
    at = 0
    for weight, size in ((gate, record.gate_bytes), (up, record.up_bytes), (down, record.down_bytes)):
        q, d = unpack_q4_32x32(content[at : at + size], *weight.shape)
        expected_q, expected_d = quantise_q4_0(weight)
        assert np.array_equal(q, expected_q) and np.array_equal(d, expected_d)
        at += size
    assert len(content) == record.stride and not content[at:].any()


def test_f32_records_are_exact(tmp_path: Path) -> None:
    store = Store(synthetic_store(tmp_path, "f32"))
    raw = np.fromfile(store.experts_path, np.uint8)
    record = store.layers[2].record
    at = store.layers[2].offset + 4 * record.stride + record.gate_bytes + record.up_bytes
    assert np.array_equal(
        unpack_f32(raw[at : at + record.down_bytes], 64, 32), SyntheticSource(SPEC, 0).expert(2, 4)[2]
    )
