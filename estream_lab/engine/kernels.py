"""Kernels compiled, or loaded from numba's cache, before a request is timed."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numba.core import event
from tqdm import tqdm

from estream_lab.engine.settings import EngineSettings
from estream_lab.errors import EStreamError
from estream_lab.experts import Arena, ExpertShape, RecordClass, compact, group_routes
from estream_lab.experts.executors import Executor
from estream_lab.kernels import host
from estream_lab.kernels.projections import STRIPS, projection
from estream_lab.machine import reset_peak_rss
from estream_lab.models.dense import Kinds
from estream_lab.models.layers import Decoder
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.routing import route
from estream_lab.streaming import Store

DELAY_SECONDS = 1.0  # kernels that are kept from before are there sooner, and need no bar

COMPILE = (
    "import sys; sys.path[:] = sys.argv[2:]; from estream_lab.engine import kernels; kernels.load_those_of(sys.argv[1])"
)

_loaded: set[tuple[Executor, frozenset[str]]] = set()  # by this process


def open_kernels(executor: Executor, kinds: Kinds, shown: bool = False) -> bool:
    """Have the kernels ready; returns whether this is the process's first engine.

    Compiling takes more memory than it leaves behind: the first engine starts to watch the process's peak.

    Args:
        executor: of the experts.
        kinds: of the dense weights.
        shown: a bar on standard error while kernels are compiled.
    """
    first = not _loaded
    if first:
        reset_peak_rss()
    wanted = (executor, frozenset(kinds.values()))
    if wanted not in _loaded:
        load_kernels(*wanted, shown)
        _loaded.add(wanted)
    return first


def compile_apart(store: Path) -> None:
    """Have another process compile the kernels of an engine on ``store``, unless this one has some already.

    Compiling leaves tens of megabytes behind that no process has which finds the kernels kept: whoever measures what an
    engine's process takes has them compiled apart.

    Raises:
        EStreamError: not a store, one that can't be run, or the other process failed.
    """
    if _loaded:
        return
    _kernels_of(store)  # refused here, what is wrong with it is a sentence and not a process that failed
    # Safe path (-P), then this process's own: modules that happen to lie in the working folder aren't imported.
    command = [sys.executable, "-P", "-c", COMPILE, str(store), *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode:
        why = done.stderr.strip().rpartition("\n")[2] or "it said nothing"
        raise EStreamError(
            f"the process that compiles kernels for {store} failed with status {done.returncode} ({why}): estream "
            "doctor tells what this computer lacks"
        )


def load_those_of(store: str) -> None:
    """Load, or compile, the kernels of an engine on the store of this path.

    Raises:
        EStreamError: not a store, or one that can't be run.
    """
    load_kernels(*_kernels_of(Path(store)), shown=False)


def _kernels_of(store: Path) -> tuple[Executor, frozenset[str]]:
    """The executor and the kinds of dense weights that an engine on the store has by default."""
    opened = Store(store)
    return EngineSettings().complete(opened).chosen_executor, frozenset(opened.dense.kinds.values())


def load_kernels(executor: Executor, kinds: frozenset[str], shown: bool) -> None:
    """Call every kernel of a prefill once, on one token of the smallest model there is.

    The first time on a computer this compiles for some seconds, later it loads what was kept; the bar says which.
    """
    steps: list[Callable[[], object]] = [
        *(partial(_multiply, kind) for kind in sorted(kinds)),
        _normalise,
        _rotate,
        _attend,
        partial(_run_layer, executor),
    ]
    with tqdm(
        total=len(steps),
        unit="step",
        desc="loading kernels",
        leave=False,
        delay=DELAY_SECONDS,
        disable=not shown,
    ) as bar:
        compiling = partial(bar.set_description, "compiling kernels, once on this computer", refresh=False)
        with event.install_listener("numba:compile", _OnStart(compiling)):
            for step in steps:
                step()
                bar.update()


class _OnStart(event.Listener):  # type: ignore[misc]  # numba has no types
    """Calls ``act`` whenever numba starts to do what it is installed for."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def on_start(self, _: event.Event) -> None:
        """It starts."""
        self._act()

    def on_end(self, _: event.Event) -> None:
        """It has ended, which changes nothing."""


def _multiply(kind: str) -> None:
    """By weights of this kind."""
    bits = np.zeros((1, 32), np.uint16 if kind == "bf16" else np.float32)
    row = np.zeros((1, 32), np.float32)
    weight = STRIPS[kind].room(1, 32) if kind in STRIPS else projection(bits)
    weight.linear(row)
    weight.rows(np.zeros(1, np.int32), row)


def _normalise() -> None:
    row = np.ones((1, 32), np.float32)
    host.all_finite(host.rms_norm(row, row[0], 1e-5))


def _rotate() -> None:
    half = np.ones((1, 16), np.float32)
    host.rotate_half(np.ones((1, 1, 32), np.float32), half, half)


def _attend() -> None:
    one = np.ones((1, 1, 32), np.float32)
    keys, values = (np.zeros(shape, np.float32) for shape in host.cache_shapes(1, 32, 1))
    host.remember(one, one, 0, keys, values)
    host.attention(one, keys, values, 0, 1.0)


def _run_layer(executor: Executor) -> None:
    """A whole layer as an engine runs it: its own kernels are those of routes and of experts."""
    spec = synthetic_spec(hidden=32, ffn=32, layers=1, experts=1, top_k=1, heads=1, vocab=1, context=1)
    decoder = Decoder(spec, SyntheticSource(spec).dense)
    work = decoder.new_workspace(1)
    decoder.embed(np.zeros(1, np.int32), work.x)  # (1, H)
    decoder.attend(0, decoder.new_cache(1), 0, work)
    routes = route(work.logits, spec.router)
    home = np.zeros(1, np.int32)  # expert 0 is in group 0 and in slot 0
    binding = compact(routes, home, 0, 1, group_routes(routes, home, 1).of(0))
    record = RecordClass.of(ExpertShape(spec.hidden, spec.ffn, (executor.layout,) * 3))
    executor.kernel(record, 1)(work.normed, np.zeros_like(work.x), binding, Arena(1, 1, record.stride), record)
