"""Everything of a decoder that is not an expert: embedding, attention, norms, router, head.

All arithmetic is float32, but for products with quantised weights (`kernels.int8`). Every row is computed by itself in
a fixed order (the kernels see to that), so a prompt may be cut into chunks of any size without changing a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.host import (
    LinearScratch,
    LinearSizes,
    Projection,
    attention,
    cache_shapes,
    remember,
    rms_norm,
    rotate_half,
)
from estream_lab.kernels.int8 import Strips
from estream_lab.kernels.projections import Weight, embedding, projection, shape
from estream_lab.models.rope import rope_tables
from estream_lab.models.spec import ModelSpec
from estream_lab.models.workspace import Workspace

Array = NDArray[np.float32]
Read = Callable[[str], Weight]


@dataclass(frozen=True)
class KVCache:
    """Keys and values of the positions seen so far, and the rotary tables for as many positions.

    Attributes:
        keys, values: per layer, in strips (`kernels.host.cache`) of room for `capacity` positions or a few more.
        cos, sin: (capacity, D/2).
    """

    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    cos: Array
    sin: Array

    @property
    def capacity(self) -> int:
        """Most positions that fit."""
        return len(self.cos)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self.keys, *self.values, self.cos, self.sin))

    @staticmethod
    def bytes_for(spec: ModelSpec, capacity: int) -> int:
        """`nbytes` of a cache of so many positions."""
        shapes = cache_shapes(spec.kv_heads, spec.head_dim, capacity)
        return 4 * (spec.layers * sum(map(math.prod, shapes)) + capacity * spec.head_dim)


@dataclass(frozen=True)
class DecoderLayer:
    """The dense weights of one layer: norms as vectors, projections packed for the kernel."""

    attention_norm: Array
    q_proj: Projection
    k_proj: Projection
    v_proj: Projection
    q_norm: Array
    k_norm: Array
    o_proj: Projection
    expert_norm: Array
    router: Projection

    @property
    def nbytes(self) -> int:
        """Bytes of all weights as held."""
        return sum(weight.nbytes for weight in vars(self).values())

    @property
    def projections(self) -> tuple[Projection, ...]:
        """All matrices."""
        return self.q_proj, self.k_proj, self.v_proj, self.o_proj, self.router


class Decoder:
    """The resident part of a model, built from canonical weights (`ModelSpec.dense_shapes`).

    One layer is `attend`, then the caller runs the experts on the workspace's `normed` along the routes of its
    `logits`, and adds their output to its `x`.
    """

    def __init__(self, spec: ModelSpec, read: Read) -> None:
        """Read every dense weight once, one at a time.

        Args:
            spec: the model.
            read: canonical name → weight, matrices of any kind (`kernels.projections`); an array is not kept, except
                for vectors and an embedding that isn't the head's.

        Raises:
            EStreamError: a weight's shape isn't what the spec says, or whatever `read` raises.
        """
        self.spec = spec
        shapes = spec.dense_shapes()

        def checked(name: str) -> Weight:
            return _checked(name, read(name), shapes[name])

        def vector(name: str) -> Array:
            return np.ascontiguousarray(checked(name), np.float32)

        def matrix(name: str) -> Projection:
            return projection(checked(name))

        # In the order of `models.dense.in_order`, by which memory is planned.
        # Tied weights are held once, as the head's; the embedding's rows are then picked out of them.
        self._head = matrix("embed.weight" if spec.tied else "head.weight")
        self._embed = self._head if spec.tied else embedding(checked("embed.weight"))
        self._norm = vector("norm.weight")
        self._layers = tuple(_read_layer(f"layers.{layer}.", vector, matrix) for layer in range(spec.layers))

    @property
    def nbytes(self) -> int:
        """Bytes of all dense weights as held."""
        embed = 0 if self._embed is self._head else self._embed.nbytes
        return sum(layer.nbytes for layer in self._layers) + self._norm.nbytes + embed + self._head.nbytes

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for at most `capacity` positions; refuses more than the model's context (EStreamError)."""
        spec = self.spec
        if capacity > spec.context:
            raise EStreamError(f"{capacity} tokens exceed the model's context of {spec.context}; shorten the prompt")
        keys, values = (
            tuple(np.zeros(shape, np.float32) for _ in range(spec.layers))
            for shape in cache_shapes(spec.kv_heads, spec.head_dim, capacity)
        )
        return KVCache(keys, values, *rope_tables(capacity, spec.head_dim, spec.rope_theta))

    def new_workspace(self, rows: int, threads: int = 1, normed: Array | None = None) -> Workspace:
        """Activations for chunks of up to ``rows`` tokens: see `Workspace.make`."""
        sizes = LinearSizes(0, 0, 0)
        for each in (self._head, *(matrix for layer in self._layers for matrix in layer.projections)):
            sizes = sizes.covering(each.sizes(each.k))
        return Workspace.make(self.spec, rows, threads, sizes, normed)

    def embed(self, tokens: NDArray[np.integer], out: Array | None = None) -> Array:
        """The residual stream's start, (T, H), for token ids (T,); refuses ids outside the vocabulary
        (EStreamError). Written to ``out`` if given."""
        tokens = np.asarray(tokens)
        outside = tokens[(tokens < 0) | (tokens >= self.spec.vocab)]
        if outside.size:
            raise EStreamError(
                f"token id {outside[0]} is outside the vocabulary; use ids from 0 to {self.spec.vocab - 1}"
            )
        x = np.empty((len(tokens), self.spec.hidden), np.float32) if out is None else out
        return self._embed.rows(tokens, x)

    def attend(self, layer: int, cache: KVCache, start: int, work: Workspace) -> None:
        """One layer's non-expert work on the positions start … start + T - 1.

        Args:
            layer: its number.
            cache: holds the positions before `start`; this layer's keys and values are added to it.
            start: the position of the first row of `work.x`.
            work: `x` (T, H) is the residual stream, to which attention is added. Then `normed` (T, H) is its RMS norm,
                the experts' input, and `logits` (T, E) the router's; the other arrays are of no more use.

        Raises:
            EStreamError: more positions than the cache has.
        """
        spec, weights = self.spec, self._layers[layer]
        x, normed = work.x, work.normed
        rows, end = len(x), start + len(x)
        if end > cache.capacity:
            raise EStreamError(f"{end} tokens exceed the cache's {cache.capacity} positions; open a larger cache")
        rms_norm(x, weights.attention_norm, spec.rms_eps, normed)  # (T, H)
        query_key_norm(weights.q_proj.linear(normed, work.q, work.linear), weights.q_norm, spec)  # (T, Hq*D)
        query_key_norm(weights.k_proj.linear(normed, work.k, work.linear), weights.k_norm, spec)  # (T, Hkv*D)
        weights.v_proj.linear(normed, work.v, work.linear)  # (T, Hkv*D)

        queries = work.q.reshape(rows, spec.heads, spec.head_dim)
        keys = work.k.reshape(rows, spec.kv_heads, spec.head_dim)
        rotate_half(queries, cache.cos[start:end], cache.sin[start:end])
        rotate_half(keys, cache.cos[start:end], cache.sin[start:end])
        remember(keys, work.v.reshape(keys.shape), start, cache.keys[layer], cache.values[layer])

        scale = spec.head_dim**-0.5
        attention(queries, cache.keys[layer], cache.values[layer], start, scale, work.mixed, work.attention)
        x += weights.o_proj.linear(work.mixed, normed, work.linear)  # (T, H)
        rms_norm(x, weights.expert_norm, spec.rms_eps, normed)
        weights.router.linear(normed, work.logits, work.linear)  # (T, E)

    def norm(self, x: Array, out: Array | None = None) -> Array:
        """The final RMS norm, (T, H); ``out`` may be x."""
        return rms_norm(x, self._norm, self.spec.rms_eps, out)

    def logits(self, hidden: Array, scratch: LinearScratch | None = None) -> Array:
        """Next-token logits (n, V) of normed rows (n, H), as many at a time as the scratch memory is for."""
        out = np.empty((len(hidden), self.spec.vocab), np.float32)
        step = max(1, len(hidden)) if scratch is None else scratch.max_rows
        for first in range(0, len(hidden), step):
            part = slice(first, first + step)
            self._head.linear(hidden[part], out[part], scratch)
        return out


def query_key_norm(x: Array, weight: Array, spec: ModelSpec) -> None:
    """RMS norm of the whole query (or key) vector, (T, heads*D), before it is split into heads; in place."""
    rms_norm(x, weight, spec.rms_eps, x)


def _read_layer(at: str, vector: Callable[[str], Array], matrix: Callable[[str], Projection]) -> DecoderLayer:
    return DecoderLayer(
        attention_norm=vector(at + "attention_norm.weight"),
        q_proj=matrix(at + "q_proj.weight"),
        k_proj=matrix(at + "k_proj.weight"),
        v_proj=matrix(at + "v_proj.weight"),
        q_norm=vector(at + "q_norm.weight"),
        k_norm=vector(at + "k_norm.weight"),
        o_proj=matrix(at + "o_proj.weight"),
        expert_norm=vector(at + "expert_norm.weight"),
        router=matrix(at + "router.weight"),
    )


def _checked(name: str, weight: Weight, expected: tuple[int, ...]) -> Weight:
    if shape(weight) != expected:
        raise EStreamError(
            f"weight {name} has shape {shape(weight)} where the model needs {expected}; pack the checkpoint again"
        )
    if isinstance(weight, Strips) or weight.dtype == np.uint16:
        return weight
    return np.ascontiguousarray(weight, np.float32)
