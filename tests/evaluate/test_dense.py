"""What quantised dense weights change: a little of the shipped model's text, with known orders of size."""

from estream_lab.evaluate.dense import dense_rows
from estream_lab.kernels import host
from tests.golden_compare import TINY_MOE
from tools.numerics_table import TEXTS


def test_eight_bits_change_less_than_four_and_nothing_changes_by_itself() -> None:
    kept, eight, four = dense_rows(TINY_MOE, TEXTS, 1, 64, threads=host.thread_limit())
    assert [row.quant for row in (kept, eight, four)] == ["f16", "q8_0", "q4_0"]
    assert kept.change.logits_error == kept.change.divergence_bits == kept.change.delta_bits_per_byte == 0
    assert 1e-3 < eight.change.logits_error < 0.01 < four.change.logits_error < 0.1
    assert 0 < eight.change.divergence_bits < four.change.divergence_bits / 5
    assert abs(four.bits_per_byte - kept.bits_per_byte - four.change.delta_bits_per_byte) < 1e-9
    for smaller, larger in ((eight, kept), (four, eight)):
        assert smaller.stored_bytes < 0.7 * larger.stored_bytes and smaller.held_bytes < 0.7 * larger.held_bytes
