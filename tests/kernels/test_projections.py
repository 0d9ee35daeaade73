"""Weights of every kind, as they are read, become what a model holds."""

import numpy as np
import pytest

from estream_lab.kernels.host.bf16 import narrow, widen
from estream_lab.kernels.int8 import pack_q4, pack_q8
from estream_lab.kernels.projections import HELD, ITEM_BYTES, Weight, embedding, projection, shape


def weights() -> dict[str, Weight]:
    """One matrix, of bf16 numbers, in every kind."""
    bits = narrow(np.random.default_rng(0).standard_normal((45, 96)).astype(np.float32))
    wide = widen(bits, np.empty(bits.shape, np.float32))
    return {"f32": wide, "bf16": bits, "q8-32x32": pack_q8(wide), "q4-32x32": pack_q4(wide)}


@pytest.mark.parametrize("kind", HELD)
def test_a_matrix_is_held_by_its_kind_in_as_many_bytes_as_that_says(kind: str) -> None:
    weight = weights()[kind]
    held, rows = projection(weight), embedding(weight)
    assert type(held) is HELD[kind] and shape(weight) == (held.n, held.k) == (rows.n, rows.k) == (45, 96)
    assert held.nbytes == HELD[kind].bytes_for(45, 96)
    assert rows.nbytes == 45 * 96 * ITEM_BYTES[kind] if kind in ITEM_BYTES else rows is held is weight
    ids, room = np.array([44, 0, 7, 44]), np.empty((2, 4, 96), np.float32)
    assert rows.rows(ids, room[0]).tobytes() == held.rows(ids, room[1]).tobytes()
    if kind in ITEM_BYTES:
        assert np.array_equal(room[0], weights()["f32"][ids])


def test_every_kind_is_tried() -> None:
    assert weights().keys() == HELD.keys()
