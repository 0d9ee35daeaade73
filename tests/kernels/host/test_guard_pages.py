"""The kernels of fp32 touch nothing beyond their arrays: these lie between forbidden pages, where a byte too far kills.

Where an array ends at such a page, its beginning is checked by another run in which it starts behind one. Faults are
planted too: each array once a number too far, which has to kill, or the pages would guard nothing.
"""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import signal
import numpy as np
from estream_lab.kernels import host
from estream_lab.kernels.host.attention import AttentionScratch
from estream_lab.kernels.host.cache import cache_shapes, remember
from dataclasses import replace
from tests.kernels.guard_pages import array, ends
from tests.kernels.host.test_expert import Bank


class Arrays:
    "Copies of arrays by name: all between forbidden pages, one perhaps a number too far."

    def __init__(self, at_end, wrong):
        self.at_end, self.wrong = at_end, wrong

    def __call__(self, name, like):
        return array(like, self.at_end, (4 if self.at_end else -4) * (name == self.wrong))


def operator_case(layout, at_end, wrong=None):
    "Experts of more and of fewer inputs than a pass has, with rows for every register block."
    place = Arrays(at_end, wrong)
    bank = Bank.random(3, 160, 64, layout, [7, 2, 200, 1])  # an even number of blocks: no padding
    first = min(int(plane.min()) for plane in bank.planes)  # what lies before it is never read
    bank.arena, bank.planes = bank.arena[first:].copy(), [plane - first for plane in bank.planes]
    expected = bank.run()
    scratch = host.Scratch(len(bank.token), bank.hidden, bank.ffn, 1)
    for name in ("act", "panels", "tiles", "index"):
        setattr(scratch, name, place("scratch." + name, getattr(scratch, name)))
    for name in ("x", "token", "weight", "arena"):
        setattr(bank, name, place(name, getattr(bank, name)))
    assert bank.run(scratch, place("y", np.zeros_like(expected))).tobytes() == expected.tobytes()


def projection_case(kind, at_end, wrong=None):
    "A projection of strips of which the last is half empty."
    place, rng = Arrays(at_end, wrong), np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((200, 352), (80, 352)))
    weights = host.pack_dense(w) if kind == "fp32" else host.pack_bf16((w.view(np.uint32) >> 16).astype(np.uint16))
    expected = weights.linear(x)
    scratch = host.LinearScratch(len(x), 1, weights.sizes(352))
    scratch.tiles = place("tiles", scratch.tiles)
    weights = replace(weights, panels=place("panels", weights.panels))
    got = weights.linear(place("x", x), place("out", np.zeros_like(expected)), scratch)
    assert got.tobytes() == expected.tobytes()


def attention_case(width, at_end, wrong=None):
    "A full cache of which the first positions are older; heads of a width that is or isn't whole strips."
    place, rng = Arrays(at_end, wrong), np.random.default_rng(0)
    q, k, v = (rng.standard_normal((230, heads, width)).astype(np.float32) for heads in (4, 2, 2))
    keys, values = (np.zeros(shape, np.float32) for shape in cache_shapes(2, width, 256))
    remember(k, v, 26, keys, values)
    expected = host.attention(q, keys, values, 26, 0.125)
    keys, values = (place(name, np.zeros_like(like)) for name, like in (("keys", keys), ("values", values)))
    remember(place("k", k), place("v", v), 26, keys, values)
    scratch = AttentionScratch(width, 1)
    scratch.index = place("index", scratch.index)
    for name, like in vars(scratch.blocks[0]).items():
        setattr(scratch.blocks[0], name, place("scratch." + name, like))
    got = host.attention(place("q", q), keys, values, 26, 0.125, place("out", np.zeros_like(expected)), scratch)
    assert got.tobytes() == expected.tobytes()


CASES = (
    (operator_case, "q4-32x32", "x token weight arena y scratch.act scratch.panels scratch.tiles scratch.index"),
    (operator_case, "f32", "x token weight arena y scratch.act scratch.tiles scratch.index"),
    (projection_case, "fp32", "x panels out tiles"),
    (projection_case, "bf16", "x panels out tiles"),
    (attention_case, 48, "q k v keys values out index scratch.queries scratch.scores scratch.sums scratch.state"),
    (attention_case, 64, "q k v keys values out index scratch.queries scratch.scores scratch.sums scratch.state"),
)
host.set_threads(1)
for case, kind, _ in CASES:
    case(kind, True)  # compiles once for all children
for at_end in (True, False):
    for case, kind, names in CASES:
        assert ends(case, kind, at_end) == 0, (case, kind, at_end)
        for name in names.split():
            killed = ends(case, kind, at_end, name)
            assert killed in (signal.SIGSEGV, signal.SIGBUS), (case, kind, name, at_end, killed)
print("guarded")
"""


def test_no_kernel_reads_or_writes_a_byte_beyond_its_arrays() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "guarded\n"
