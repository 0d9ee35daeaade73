"""The dense matrices of a model: which may be quantised, and what they and their temporaries take in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from estream_lab.kernels.host import LinearSizes
from estream_lab.kernels.projections import HELD, ITEM_BYTES
from estream_lab.models.spec import ModelSpec

Kinds = Mapping[str, str]
"""Canonical name → kind of a matrix (`kernels.projections.HELD`); those that it lacks are in f32."""

ALL_F32: Kinds = {}


def quantisable(spec: ModelSpec) -> dict[str, tuple[int, int]]:
    """Canonical name → (N, K) of the matrices that may be quantised: embedding, head, q, k, v and o projections.

    The routers are kept, as llama.cpp keeps them: they are small, and decide which experts run.
    """
    matrices = ((name, shape) for name, shape in spec.dense_shapes().items() if not name.endswith(".router.weight"))
    return {name: (shape[0], shape[1]) for name, shape in matrices if len(shape) == 2}


def dense_memory(spec: ModelSpec, kinds: Kinds = ALL_F32) -> tuple[int, int]:
    """What a `Decoder` holds, and the most that it and the tensor being packed take while it is built, in bytes.

    What `read` needs beyond its result is not counted.
    """
    held = most = 0
    for name, shape in in_order(spec):
        kind = kinds.get(name, "f32")
        tensor = math.prod(shape) * ITEM_BYTES.get(kind, 0)
        packed = HELD[kind].bytes_for(*shape) if _packed(spec, name, shape, kind) else 0
        most = max(most, held + tensor + packed)
        held += packed or tensor
    return held, most


def scratch_sizes(spec: ModelSpec, kinds: Kinds = ALL_F32) -> LinearSizes:
    """Temporaries that serve every projection of a model."""
    sizes = LinearSizes(0, 0, 0)
    for name, shape in spec.dense_shapes().items():
        if len(shape) == 2:
            sizes = sizes.covering(HELD[kinds.get(name, "f32")].sizes(shape[1]))
    return sizes


def in_order(spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every dense weight in the order of reading.

    The largest first: while a weight is packed it is there twice, and nothing else is there yet.
    """
    shapes = spec.dense_shapes()
    first = [name for name in ("head.weight", "embed.weight", "norm.weight") if name in shapes]
    for name in [*first, *(name for name in shapes if name not in first)]:
        yield name, shapes[name]


def _packed(spec: ModelSpec, name: str, shape: tuple[int, ...], kind: str) -> bool:
    """Whether a weight is held in another form than that of an array: an untied embedding has no product."""
    rows_only = name == "embed.weight" and not spec.tied
    return len(shape) == 2 and not (rows_only and kind in ITEM_BYTES)
