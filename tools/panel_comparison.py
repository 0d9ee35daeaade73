"""Time the products of a layer's experts on q4-32x32 beside the same on panels of 16 columns, in turn in one run.

    .venv/bin/python -m tools.panel_comparison    # OLMoE's sizes, T = 32, 128 and 1024

Weights, activations and routes are random, both sides' are equal, and so are their results, bit for bit. A call is
every product of a layer (gate, up and down of every expert) with the rows that routes give each expert: what a layer
spends its time on. Panels: `tools.panels16`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np
from numba import njit

from estream_lab.bench.rounds import awaken, order
from estream_lab.bench.shapes import SHAPES, LayerShape
from estream_lab.cli.options import positive
from estream_lab.kernels.arrays import F32, I64, U8, aligned
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.vector_ir import COLUMNS, address, take_share
from estream_lab.kernels.int8.records import RECORD_BYTES
from estream_lab.kernels.int8.scratch import Scratch
from estream_lab.kernels.int8.strip import lane
from estream_lab.kernels.layout import BLOCK_BYTES, pack_q4_32x32
from estream_lab.kernels.packed.lane import Lane, row_records, strip_product
from estream_lab.kernels.packed.scratch import ROW_BLOCK
from estream_lab.kernels.packed.weights import bring
from estream_lab.routing import synthetic_routes
from tools.command import ended
from tools.panels16 import PANEL, PANEL_BLOCK_BYTES, ROWS, bring_panel, pack_panels, panel_product

TOKENS, ROUNDS = (32, 128, 1024), 9
_NO_SUMS = np.empty((0, 0), np.float32)


@dataclass(frozen=True, eq=False)
class Side:
    """One layout: (E, bytes) of each projection, (routes, K) records of its inputs, and what multiplies them."""

    weights: tuple[U8, U8, U8]
    records: tuple[U8, U8, U8]
    multiply: Callable[[I64, U8, U8, int, F32], None]


def main() -> None:
    """Print a line for each number of tokens."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="olmoe", help="layer, by family (default olmoe)")
    parser.add_argument("--tokens", type=positive, nargs="+", default=TOKENS, metavar="T")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help=f"(default {ROUNDS})")
    options = parser.parse_args()
    print(f"{options.shape}, {threads()} threads, medians of {options.rounds} rounds; ratio: of times in one round")
    for tokens in options.tokens:
        seconds = compare(SHAPES[options.shape], tokens, options.rounds)
        ratio = median(panels / strips for strips, panels in seconds)
        strips, panels = (median(side) for side in zip(*seconds, strict=True))
        print(f"T = {tokens:4}: q4-32x32 {strips:.4f} s, panels of 16 {panels:.4f} s, panels / q4-32x32 {ratio:.2f}")


def compare(shape: LayerShape, tokens: int, rounds: int, seed: int = 0) -> list[tuple[float, float]]:
    """(rounds,) seconds of the products on q4-32x32 and on panels, in an order of each round's own.

    Raises:
        ValueError: results that aren't the same, bit for bit.
    """
    routes = synthetic_routes(tokens, shape.experts, shape.top_k, alpha=shape.alpha, seed=seed)
    rows = np.bincount(routes.expert, minlength=shape.experts)
    offsets = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    sides = make_sides(shape, offsets, np.random.default_rng(seed))
    check_equal(sides, shape, offsets)
    seconds = []
    for turn in range(rounds):
        took = {}
        for side in order(2, turn):
            awaken(0.05)
            layer(sides[side], shape, offsets)
            start = perf_counter()
            layer(sides[side], shape, offsets)
            took[side] = perf_counter() - start
        seconds.append((took[0], took[1]))
    return seconds


def make_sides(shape: LayerShape, offsets: I64, rng: np.random.Generator) -> tuple[Side, Side]:
    """Both layouts of the same weights and activations. Experts have different weights."""
    strips: list[U8] = []
    panels: list[U8] = []
    for n, k in shape.projections:
        d = (rng.random((n, k // 32), np.float32) * 0.01 + 0.001).astype(np.float16)
        q = rng.integers(0, 16, (n, k), np.uint8)
        packed = pack_q4_32x32(q, d).reshape(-1), pack_panels(q, d).reshape(-1)
        for held, one in zip((strips, panels), packed, strict=True):
            memory = aligned(shape.experts * one.nbytes).reshape(shape.experts, -1)
            memory[:] = one
            held.append(memory)
    inputs = [rng.standard_normal((offsets[-1], k), np.float32) for k in (shape.hidden, shape.ffn)]
    cuts = (lane(), lane()._replace(block_rows=ROWS))
    x, act = ([_records(each, rows, offsets) for each in cuts] for rows in inputs)
    return (
        Side((strips[0], strips[1], strips[2]), (x[0], x[0], act[0]), _strips),
        Side((panels[0], panels[1], panels[2]), (x[1], x[1], act[1]), _panels),
    )


def _records(cut_as: Lane, rows: F32, offsets: I64) -> U8:
    records = aligned(rows.size // COLUMNS * RECORD_BYTES)
    _lay(cut_as, rows, offsets, records)
    return records


def layer(side: Side, shape: LayerShape, offsets: I64) -> None:
    """Every product of a layer, on all threads; sums are left in a tile that is written over."""
    for (_, k), weights, records in zip(shape.projections, side.weights, side.records, strict=True):
        side.multiply(offsets, records, weights, k, _NO_SUMS)


def check_equal(sides: tuple[Side, Side], shape: LayerShape, offsets: I64) -> None:
    """Refuse sides whose sums differ."""
    for at, (n, k) in enumerate(shape.projections):
        out = [np.zeros((offsets[-1], n), np.float32) for _ in sides]
        for side, sums in zip(sides, out, strict=True):
            side.multiply(offsets, side.records[at], side.weights[at], k, sums)
        if out[0].tobytes() != out[1].tobytes() or not out[0].any():
            raise ValueError("panels give other sums than q4-32x32")


def _strips(offsets: I64, records: U8, weights: U8, k: int, out: F32) -> None:
    by = lane()

    def work(counter: int, shares: int, worker: int) -> None:
        tile, panel = np.empty(ROW_BLOCK * COLUMNS, np.float32), np.empty(Scratch.PANEL_BYTES, np.uint8)
        _walk_strips(by, offsets, records, weights, k // COLUMNS, tile, panel, out, counter, shares)

    shares = len(weights) * (weights.shape[1] // (k // COLUMNS * BLOCK_BYTES))
    run_workers(work, shares, threads(), shares)


def _panels(offsets: I64, records: U8, weights: U8, k: int, out: F32) -> None:
    def work(counter: int, shares: int, worker: int) -> None:
        tile = np.empty(ROW_BLOCK * PANEL, np.float32)
        _walk_panels(offsets, records, weights, k // COLUMNS, tile, out, counter, shares)

    shares = len(weights) * (weights.shape[1] // (k // COLUMNS * PANEL_BLOCK_BYTES))
    run_workers(work, shares, threads(), shares)


@njit(nogil=True)
def _walk_strips(
    by: Lane, offsets: I64, records: U8, weights: U8, blocks: int, tile: F32, panel: U8, out: F32,
    counter: int, shares: int,
) -> None:  # fmt: skip
    strips = shares // len(weights)
    share = take_share(counter)
    while share < shares:
        slot, strip = share // strips, share % strips
        w = address(weights) + share * blocks * BLOCK_BYTES
        bring(w + 2 * blocks * BLOCK_BYTES)  # with two threads, this one's next share
        for first in range(offsets[slot], offsets[slot + 1], ROW_BLOCK):
            some = min(ROW_BLOCK, offsets[slot + 1] - first)
            x = address(records) + RECORD_BYTES * first * blocks
            strip_product(by, x, some, w, blocks, address(panel), tile)
            if len(out):
                for r in range(some):
                    for j in range(COLUMNS):
                        out[first + r, strip * COLUMNS + j] = tile[r * COLUMNS + j]
        share = take_share(counter)


@njit(nogil=True)
def _walk_panels(
    offsets: I64, records: U8, weights: U8, blocks: int, tile: F32, out: F32, counter: int, shares: int
) -> None:
    panels = shares // len(weights)
    share = take_share(counter)
    while share < shares:
        slot, at = share // panels, share % panels
        w = address(weights) + share * blocks * PANEL_BLOCK_BYTES
        bring_panel(w + 2 * blocks * PANEL_BLOCK_BYTES)
        for first in range(offsets[slot], offsets[slot + 1], ROW_BLOCK):
            some = min(ROW_BLOCK, offsets[slot + 1] - first)
            panel_product(address(records) + RECORD_BYTES * first * blocks, some, w, blocks, tile)
            if len(out):
                for r in range(some):
                    for j in range(PANEL):
                        out[first + r, at * PANEL + j] = tile[r * PANEL + j]
        share = take_share(counter)


@njit
def _lay(cut_as: Lane, rows: F32, offsets: I64, records: U8) -> None:
    """The records of every row where the products of a side read them."""
    blocks = rows.shape[1] // COLUMNS
    for slot in range(len(offsets) - 1):
        first, count = offsets[slot], offsets[slot + 1] - offsets[slot]
        for r in range(count):
            to = address(records) + RECORD_BYTES * first * blocks
            row_records(cut_as, address(rows[first + r]), r, count, blocks, to)


if __name__ == "__main__":
    raise SystemExit(ended(main))
