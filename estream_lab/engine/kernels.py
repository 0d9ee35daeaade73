"""Kernels compiled, or loaded from numba's cache, before a request is timed."""

from functools import lru_cache

import numpy as np

from estream_lab.experts import Arena, ExpertShape, RecordClass, compact, group_routes
from estream_lab.experts.executors import Executor
from estream_lab.kernels import host
from estream_lab.kernels.projections import HELD, STRIPS, projection
from estream_lab.machine import reset_peak_rss
from estream_lab.models.dense import Kinds
from estream_lab.models.layers import Decoder
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.routing import route


@lru_cache(maxsize=16)
def load_kernels(executor: Executor) -> None:
    """Call every kernel of a prefill once, on one token of the smallest model there is; once a process and executor.

    The first time on a computer this compiles for some seconds, later it loads what was kept.
    """
    spec = synthetic_spec(hidden=32, ffn=32, layers=1, experts=1, top_k=1, heads=1, vocab=1, context=1)
    decoder = Decoder(spec, SyntheticSource(spec).dense)
    work = decoder.new_workspace(1)
    decoder.embed(np.zeros(1, np.int32), work.x)  # (1, H)
    decoder.attend(0, decoder.new_cache(1), 0, work)
    host.all_finite(work.logits)
    routes = route(work.logits, spec.router)
    home = np.zeros(1, np.int32)  # expert 0 is in group 0 and in slot 0
    binding = compact(routes, home, 0, 1, group_routes(routes, home, 1).of(0))
    record = RecordClass.of(ExpertShape(spec.hidden, spec.ffn, (executor.layout,) * 3))
    executor.kernel(record, 1)(work.normed, np.zeros_like(work.x), binding, Arena(1, 1, record.stride), record)


@lru_cache(maxsize=len(HELD))
def load_projection(kind: str) -> None:
    """Multiply by weights of this kind once."""
    bits = np.zeros((1, 32), np.uint16 if kind == "bf16" else np.float32)
    weight = STRIPS[kind].room(1, 32) if kind in STRIPS else projection(bits)
    weight.linear(np.zeros((1, 32), np.float32))


def open_kernels(executor: Executor, kinds: Kinds) -> bool:
    """Have the kernels ready; returns whether this is the process's first engine.

    Compiling takes more memory than it leaves behind: the first engine starts to watch the process's peak.

    Args:
        executor: of the experts.
        kinds: of the dense weights.
    """
    first = load_kernels.cache_info().currsize == 0
    if first:
        reset_peak_rss()
    load_kernels(executor)
    for kind in sorted(set(kinds.values())):
        load_projection(kind)
    return first
