"""Every kind of weights that a dense projection may have: what is read becomes what a model holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.host.dense import BFloat16Panels, DensePanels, pack_bf16, pack_dense
from estream_lab.kernels.host.projection import Projection, Rows
from estream_lab.kernels.host.rows import PlainRows
from estream_lab.kernels.int8.strips import Q4Strips, Q8Strips, Strips

Weight = NDArray[np.float32] | NDArray[np.uint16] | Strips
"""A dense weight as it is read: numbers in float32, the bits of numbers in bf16, or quantised and packed already."""

STRIPS: Mapping[str, type[Strips]] = {"q8-32x32": Q8Strips, "q4-32x32": Q4Strips}
"""The layouts in which quantised weights are stored, as they are held."""

HELD: Mapping[str, type[DensePanels] | type[BFloat16Panels] | type[Strips]] = {
    "f32": DensePanels,
    "bf16": BFloat16Panels,
    **STRIPS,
}
"""How a projection is held, by the kind of its weights."""

ITEM_BYTES = {"f32": 4, "bf16": 2}
"""Of a weight as it is read, in the kinds that are packed then."""


def projection(weight: Weight) -> Projection:
    """A matrix (N, K) for products."""
    if isinstance(weight, Strips):
        return weight
    if weight.dtype == np.uint16:
        return pack_bf16(weight.view(np.uint16))
    return pack_dense(weight)


def embedding(weight: Weight) -> Rows:
    """A matrix (N, K) for its rows alone; arrays are kept as they are."""
    return weight if isinstance(weight, Strips) else PlainRows(weight)


def shape(weight: Weight) -> tuple[int, ...]:
    """(N, K), or of a vector (N,)."""
    return (weight.n, weight.k) if isinstance(weight, Strips) else weight.shape
