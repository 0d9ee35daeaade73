"""Projections touch nothing beyond their arrays: these lie between forbidden pages, so that a byte too far would kill.

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
from estream_lab.kernels import host
from estream_lab.kernels.int8 import strip
from estream_lab.kernels.int8.scratch import linear_sizes
from estream_lab.kernels.packed.scratch import ROW_BLOCK
from tests.kernels.guard_pages import array, ends
from tests.kernels.int8.test_dense import FORMATS, problem


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
for kind in FORMATS:
    projection_case(kind, 1, True)  # compiles once for all children
for at_end in (True, False):
    for kind in FORMATS:
        for rows in (1, 7, 33, 200):
            assert ends(projection_case, kind, rows, at_end) == 0, (kind, rows, at_end)
        for name in "x blocks out scratch.rows scratch.panels scratch.tiles".split():
            if name == "scratch.panels" and (kind == "q8" or strip.PACKED_ROWS == ROW_BLOCK):
                continue  # which nothing touches
            killed = ends(projection_case, kind, 200, at_end, name)
            assert killed in (signal.SIGSEGV, signal.SIGBUS), (kind, name, at_end, killed)
print("guarded")
"""


def test_no_projection_reads_or_writes_a_byte_beyond_its_arrays() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "guarded\n"
