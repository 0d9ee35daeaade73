"""Scratch memory of projections: one serves them all, and its bytes are known before it is made."""

from collections.abc import Callable

import numpy as np
import pytest

from estream_lab.kernels.host import LinearScratch, LinearSizes, Projection, pack_bf16, pack_dense
from estream_lab.kernels.host.bf16 import narrow
from estream_lab.kernels.int8 import pack_q4, pack_q8

PACK: dict[str, Callable[[np.ndarray], Projection]] = {
    "fp32": pack_dense,
    "bf16": lambda w: pack_bf16(narrow(w)),
    "q8_0": pack_q8,
    "q4_0": pack_q4,
}


def test_one_scratch_serves_every_kind_of_weights() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((45, 96)).astype(np.float32)
    kinds = {name: pack(w) for name, pack in PACK.items()}
    sizes = LinearSizes(0, 0, 0)
    for projection in kinds.values():
        sizes = sizes.covering(projection.sizes(96))  # type: ignore[attr-defined]
    scratch = LinearScratch(300, 2, sizes)
    for rows in (1, 300, 40):
        x = rng.standard_normal((rows, 96)).astype(np.float32)
        for projection in kinds.values():
            out = np.full((rows, 45), np.nan, np.float32)
            assert projection.linear(x, out, scratch).tobytes() == projection.linear(x).tobytes()


def test_its_bytes_are_counted() -> None:
    sizes = LinearSizes(row=80, panel=9216, tile=24576)
    scratch = LinearScratch(100, 2, sizes)
    arrays = [a for a in vars(scratch).values() if isinstance(a, np.ndarray)]
    assert scratch.nbytes == LinearScratch.bytes_for(100, 2, sizes) == sum(a.nbytes for a in arrays) == 75584
    assert all(a.ctypes.data % 64 == 0 for a in arrays)
    for wrong in ((0, 2), (1, 0)):
        with pytest.raises(ValueError, match="at least one row and one thread"):
            LinearScratch(*wrong, sizes)


@pytest.mark.parametrize("rows", [300, 301])
@pytest.mark.parametrize("smaller", ["row", "panel", "tile"])
def test_too_little_of_anything_is_refused(rows: int, smaller: str) -> None:
    sizes = LinearSizes(row=80, panel=9216, tile=24576)
    short = LinearScratch(300, 1, LinearSizes(**{**vars(sizes), smaller: 64}))
    with pytest.raises(ValueError, match=f"scratch memory for 300 rows, LinearSizes.* cannot hold {rows}, LinearSizes"):
        short.check(rows, sizes)
    enough = LinearScratch(301, 1, sizes.covering(LinearSizes(row=160, panel=0, tile=0)))
    enough.check(rows, sizes)
