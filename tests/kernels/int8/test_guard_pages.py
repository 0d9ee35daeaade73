"""Nothing is read or written beyond its arrays: they lie between forbidden pages, so that a byte too far would kill.

Where an array ends at such a page, its beginning is checked by another run in which it starts behind one. Faults are
planted too: each array once a byte too far, which has to kill, or the pages would guard nothing.
"""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import signal
import numpy as np
from dataclasses import replace
from numba import njit
from estream_lab.kernels import host, int8
from estream_lab.kernels.host.vector_ir import address
from estream_lab.kernels.int8 import strip
from estream_lab.kernels.int8.scratch import linear_sizes
from tests.kernels.guard_pages import array, ends, guarded
from tests.kernels.int8.banks import Bank
from tests.kernels.int8.test_dense import FORMATS, problem


@njit
def quantise(x, record):
    strip.quantise_record(x, record)


def strip_case(rows, at_end, wrong=None):
    "One strip of two blocks and more, by raw addresses; `wrong` names the operand that lies a byte too far."
    blocks = 11
    off = lambda name: (1 if at_end else -1) * (name == wrong)
    x = guarded(40 * rows * blocks, at_end, off("records"))
    w = guarded(576 * blocks, at_end, off("weights"))
    panel = guarded(1152 * 8, at_end, off("panel"))
    tile = array(np.empty(32 * rows, np.float32), at_end, 4 * off("tile"))
    by = strip.products() if rows <= strip.FEW_ROWS else (strip.panel_product(),) * 2  # wherever panels are used
    strip.strip_product(by, x, rows, w, blocks, panel, tile)
    source, record = guarded(128, at_end, off("source")), guarded(40, at_end, off("record"))
    quantise(source, record)


def operator_case(threads, at_end, wrong=False):
    "A bank of experts, its shares handed out to so many threads."
    host.set_threads(threads)
    bank = Bank.random(3, 96, 64, [7, 0, 35, 1])
    expected = bank.expected()
    scratch = int8.Scratch(len(bank.token), bank.hidden, bank.ffn, threads)
    for name in ("x", "act", "panels", "tiles"):
        setattr(scratch, name, array(getattr(scratch, name), at_end))
    arena = np.concatenate([bank.arena, np.zeros(-len(bank.arena) % 4, np.uint8)])
    for name in ("x", "offsets", "token", "weight"):
        setattr(bank, name, array(getattr(bank, name), at_end))
    bank.arena = array(arena, at_end)
    y = array(np.zeros_like(bank.x), at_end)
    if wrong:
        bank.x = array(bank.x, at_end, 4 if at_end else -4)
    got = bank.run(scratch, y)
    assert got.tobytes() == expected.tobytes()


def projection_case(kind, rows, at_end, wrong=None):
    "A projection of strips of which the last is half empty; `wrong` names the array that lies a number too far."
    off = lambda name: (4 if at_end else -4) * (name == wrong)
    kind = FORMATS[kind]
    x, w = problem(3, rows, 352, 80)
    expected = kind.expected(x, w)
    scratch = host.LinearScratch(rows, 1, linear_sizes(352))
    for name in ("rows", "panels", "tiles"):
        setattr(scratch, name, array(getattr(scratch, name), at_end, off("scratch." + name)))
    packed = kind.pack(w)
    packed = replace(packed, blocks=array(packed.blocks, at_end, off("blocks")))
    out = array(np.zeros_like(expected), at_end, off("out"))
    assert packed.linear(array(x, at_end, off("x")), out, scratch).tobytes() == expected.tobytes()


host.set_threads(1)
Bank.random(3, 96, 64, [1, 40]).run()  # compiles once for all children
quantise(guarded(128, False), guarded(40, False))
for kind in FORMATS:
    projection_case(kind, 1, True)
for at_end in (True, False):
    for rows in (*range(1, 13), 32, 33, 41):
        assert ends(strip_case, rows, at_end) == 0, (rows, at_end)
    for threads in range(1, min(2, host.thread_limit()) + 1):
        assert ends(operator_case, threads, at_end) == 0, (threads, at_end)
        assert ends(operator_case, threads, at_end, True) in (signal.SIGSEGV, signal.SIGBUS), (threads, at_end)
    few, many = strip.FEW_ROWS, strip.FEW_ROWS + 1
    for rows, names in ((few, "records weights tile source record"), (many, "records weights panel")):
        for name in names.split():
            killed = ends(strip_case, rows, at_end, name)
            assert killed in (signal.SIGSEGV, signal.SIGBUS), (rows, name, at_end, killed)
    for kind in FORMATS:
        for rows in (1, 7, 33, 200):
            assert ends(projection_case, kind, rows, at_end) == 0, (kind, rows, at_end)
        for name in "x blocks out scratch.rows scratch.panels scratch.tiles".split():
            if name == "scratch.panels" and (kind == "q8" or strip.PACKED_ROWS == int8.scratch.ROW_BLOCK):
                continue  # which nothing touches
            killed = ends(projection_case, kind, 200, at_end, name)
            assert killed in (signal.SIGSEGV, signal.SIGBUS), (kind, name, at_end, killed)
print("guarded")
"""


def test_no_kernel_reads_or_writes_a_byte_beyond_its_arrays() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "guarded\n"
