"""Everything of a decoder that is not an expert: embedding, attention, norms, router, head.

All arithmetic is float32. Every row is computed by itself in a fixed order (the kernels see to that), so a prompt may
be cut into chunks of any size without changing a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.host import DensePanels, attention, linear, pack_dense, rms_norm, rotate_half
from estream_lab.kernels.host.dense import panel_bytes
from estream_lab.models.rope import rope_tables
from estream_lab.models.spec import ModelSpec
from estream_lab.models.workspace import Workspace

Array = NDArray[np.float32]
Read = Callable[[str], Array]


@dataclass(frozen=True)
class KVCache:
    """Keys and values of the positions seen so far, and the rotary tables for as many positions.

    Attributes:
        keys: per layer, (Hkv, D, capacity): a head's keys side by side, as the attention kernel reads them.
        values: per layer, (Hkv, capacity, D).
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
        return 4 * capacity * (2 * spec.layers * spec.key_width + spec.head_dim)


@dataclass(frozen=True)
class DecoderLayer:
    """The dense weights of one layer: norms as vectors, projections packed for the kernel."""

    attention_norm: Array
    q_proj: DensePanels
    k_proj: DensePanels
    v_proj: DensePanels
    q_norm: Array
    k_norm: Array
    o_proj: DensePanels
    expert_norm: Array
    router: DensePanels

    @property
    def nbytes(self) -> int:
        """Bytes of all weights as held."""
        return sum(weight.nbytes for weight in vars(self).values())


class Decoder:
    """The resident part of a model, built from canonical weights (`ModelSpec.dense_shapes`).

    One layer is `attend`, then the caller runs the experts on the workspace's `normed` along the routes of its
    `logits`, and adds their output to its `x`.
    """

    def __init__(self, spec: ModelSpec, read: Read) -> None:
        """Read every dense weight once, one at a time.

        Args:
            spec: the model.
            read: canonical name → weight; the array is not kept, except for vectors and the embedding.

        Raises:
            EStreamError: a weight's shape isn't what the spec says, or whatever `read` raises.
        """
        self.spec = spec
        shapes = spec.dense_shapes()

        def vector(name: str) -> Array:
            return _checked(name, read(name), shapes[name])

        def panels(name: str) -> DensePanels:
            return pack_dense(_checked(name, read(name), shapes[name]))

        # The largest first: while a weight is packed it is there twice, and nothing else is there yet.
        # Tied weights are held once, as the head's panels; the embedding's rows are then picked out of them.
        self._head = panels("embed.weight" if spec.tied else "head.weight")
        self._embed = None if spec.tied else vector("embed.weight")
        self._norm = vector("norm.weight")
        self._layers = tuple(_read_layer(f"layers.{layer}.", vector, panels) for layer in range(spec.layers))

    @property
    def nbytes(self) -> int:
        """Bytes of all dense weights as held."""
        embed = 0 if self._embed is None else self._embed.nbytes
        return sum(layer.nbytes for layer in self._layers) + self._norm.nbytes + embed + self._head.nbytes

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for at most `capacity` positions; refuses more than the model's context (EStreamError)."""
        spec = self.spec
        if capacity > spec.context:
            raise EStreamError(f"{capacity} tokens exceed the model's context of {spec.context}; shorten the prompt")
        keys = tuple(np.zeros((spec.kv_heads, spec.head_dim, capacity), np.float32) for _ in range(spec.layers))
        values = tuple(np.zeros((spec.kv_heads, capacity, spec.head_dim), np.float32) for _ in range(spec.layers))
        return KVCache(keys, values, *rope_tables(capacity, spec.head_dim, spec.rope_theta))

    def new_workspace(self, rows: int, threads: int = 1, normed: Array | None = None) -> Workspace:
        """Activations for chunks of up to ``rows`` tokens: see `Workspace.make`."""
        return Workspace.make(self.spec, rows, threads, normed)

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
        if self._embed is not None:
            return np.take(self._embed, tokens, axis=0, out=x, mode="clip")  # "raise" would go through a copy
        width = self._head.panels.shape[-1]
        for row, token in zip(x, tokens, strict=True):
            row[:] = self._head.panels[token // width, :, token % width]
        return x

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
        query_key_norm(linear(normed, weights.q_proj, work.q, work.linear), weights.q_norm, spec)  # (T, Hq*D)
        query_key_norm(linear(normed, weights.k_proj, work.k, work.linear), weights.k_norm, spec)  # (T, Hkv*D)
        linear(normed, weights.v_proj, work.v, work.linear)  # (T, Hkv*D)

        queries = work.q.reshape(rows, spec.heads, spec.head_dim)
        keys = work.k.reshape(rows, spec.kv_heads, spec.head_dim)
        rotate_half(queries, cache.cos[start:end], cache.sin[start:end])
        rotate_half(keys, cache.cos[start:end], cache.sin[start:end])
        cache.keys[layer][:, :, start:end] = keys.transpose(1, 2, 0)
        cache.values[layer][:, start:end] = work.v.reshape(rows, spec.kv_heads, spec.head_dim).transpose(1, 0, 2)

        scale = spec.head_dim**-0.5
        attention(queries, cache.keys[layer], cache.values[layer], start, scale, work.mixed, work.attention)
        x += linear(work.mixed, weights.o_proj, normed, work.linear)  # (T, H)
        rms_norm(x, weights.expert_norm, spec.rms_eps, normed)
        linear(normed, weights.router, work.logits, work.linear)  # (T, E)

    def norm(self, x: Array, out: Array | None = None) -> Array:
        """The final RMS norm, (T, H); ``out`` may be x."""
        return rms_norm(x, self._norm, self.spec.rms_eps, out)

    def logits(self, hidden: Array) -> Array:
        """Next-token logits (n, V) of normed rows (n, H)."""
        return linear(hidden, self._head)


def query_key_norm(x: Array, weight: Array, spec: ModelSpec) -> None:
    """RMS norm of the whole query (or key) vector, (T, heads*D), before it is split into heads; in place."""
    rms_norm(x, weight, spec.rms_eps, x)


def dense_memory(spec: ModelSpec) -> tuple[int, int]:
    """What a `Decoder` holds, and the most that it and the tensor being packed take while it is built, in bytes.

    What `read` needs beyond its result is not counted.
    """
    held = most = 0
    for _, shape, packed in _in_order(spec):
        tensor = 4 * math.prod(shape)
        most = max(most, held + tensor + (panel_bytes(*shape) if packed else 0))
        held += panel_bytes(*shape) if packed else tensor
    return held, most


def _in_order(spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """Name and shape of every dense weight in the order of reading, and whether it is packed into panels."""
    shapes = spec.dense_shapes()
    first = [name for name in ("head.weight", "embed.weight", "norm.weight") if name in shapes]
    for name in [*first, *(name for name in shapes if name not in first)]:
        yield name, shapes[name], len(shapes[name]) == 2 and (name != "embed.weight" or spec.tied)


def _read_layer(at: str, vector: Callable[[str], Array], panels: Callable[[str], DensePanels]) -> DecoderLayer:
    return DecoderLayer(
        attention_norm=vector(at + "attention_norm.weight"),
        q_proj=panels(at + "q_proj.weight"),
        k_proj=panels(at + "k_proj.weight"),
        v_proj=panels(at + "v_proj.weight"),
        q_norm=vector(at + "q_norm.weight"),
        k_norm=vector(at + "k_norm.weight"),
        o_proj=panels(at + "o_proj.weight"),
        expert_norm=vector(at + "expert_norm.weight"),
        router=panels(at + "router.weight"),
    )


def _checked(name: str, weight: Array, shape: tuple[int, ...]) -> Array:
    if weight.shape != shape:
        raise EStreamError(
            f"weight {name} has shape {weight.shape} where the model needs {shape}; pack the checkpoint again"
        )
    return np.ascontiguousarray(weight, np.float32)
