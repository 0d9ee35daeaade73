"""Bytes of a decoder's weights and temporaries, known before any are read."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from estream_lab.kernels.projections import HELD, STRIPS, Weight
from estream_lab.models import Decoder, ModelSpec
from estream_lab.models.dense import dense_memory, in_order, quantisable, scratch_sizes

from .kinds import as_kind
from .test_layers import SPEC, weights

MIXED = {name: list(HELD)[i % len(HELD)] for i, name in enumerate(quantisable(SPEC))}


def kinds_of(spec: ModelSpec, kind: str) -> dict[str, str]:
    """All matrices of one kind, or each of another; routers are never quantised."""
    if kind == "mixed":
        return {name: MIXED.get(name, "bf16") for name, shape in spec.dense_shapes().items() if len(shape) == 2}
    routers = {name: "f32" if kind in STRIPS else kind for name in spec.dense_shapes() if "router" in name}
    return routers | dict.fromkeys(quantisable(spec), kind)


every_kind = pytest.mark.parametrize("kind", [*HELD, "mixed"])


@every_kind
@pytest.mark.parametrize("tied", [False, True])
def test_bytes_are_known_before_the_weights_are_read(tied: bool, kind: str) -> None:
    spec = replace(SPEC, tied=tied, vocab=250)
    kinds, found = kinds_of(spec, kind), weights(spec)
    decoder = Decoder(spec, lambda name: as_kind(found[name], kinds.get(name, "f32")))
    assert dense_memory(spec, kinds)[0] == decoder.nbytes
    assert scratch_sizes(spec, kinds) == decoder.new_workspace(1).linear.sizes
    if kind == "f32":
        assert dense_memory(spec) == dense_memory(spec, kinds) and scratch_sizes(spec) == scratch_sizes(spec, kinds)


@every_kind
@pytest.mark.parametrize("tied", [False, True])
def test_every_weight_is_read_once_and_let_go(tied: bool, kind: str) -> None:
    spec = replace(SPEC, hidden=256, head_dim=64, vocab=4096, tied=tied)
    kinds = kinds_of(spec, kind)
    asked: list[str] = []

    def read(name: str) -> Weight:
        asked.append(name)
        shape, held = spec.dense_shapes()[name], kinds.get(name, "f32")
        if held in STRIPS:
            return STRIPS[held].room(shape[0], shape[1])
        return np.ones(shape, np.uint16 if held == "bf16" else np.float32)

    tracemalloc.start()
    try:
        decoder = Decoder(spec, read)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert asked == [name for name, _ in in_order(spec)]
    held, most = dense_memory(spec, kinds)
    assert held == decoder.nbytes
    assert most - 4096 < peak < most + 64 * 1024  # Python's own objects on top; the largest weight has 0.6 to 4 MiB
    assert tied or kind == "mixed" or most < held + 2 * 256 * 1024  # a small one is the last to be there twice
