"""The fused expert operator as the device runs it: the steps of a tile plan, over one buffer that stands for VTCM.

Every step reads and writes the bytes that `kernels.vtcm.steps` gives it and no others, so what the checker proves of
the steps is proved of this. Steps run one after the other in the listed order; any order that keeps their waits gives
the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from estream_lab.kernels.arrays import as_input, as_output
from estream_lab.kernels.exact.arrays import F32, I32, I64, U8, U16, U32
from estream_lab.kernels.exact.bank import Planes, Records, check_activations, checking_bytes
from estream_lab.kernels.exact.decode import decode_blocks
from estream_lab.kernels.exact.elementwise import CLAMPED_VALUES, gather_tiles, scatter_tiles, swiglu_tiles
from estream_lab.kernels.exact.matmul import MOST_STRIPS, Operands, multiply_strips
from estream_lab.kernels.exact.silu import silu_table
from estream_lab.kernels.host import threads
from estream_lab.kernels.host.threads import run_shares
from estream_lab.kernels.layout import BLOCK_BYTES, STRIP
from estream_lab.kernels.profiles import DEFAULT_VTCM_BYTES, profile
from estream_lab.kernels.vtcm import Access, Step, TilePlan, plan_tiles, steps

STEP_BYTES = 1000  # of a step, what it refers to, and what making it takes: 600 to 960, as tests hold

StepListener = Callable[[int, Sequence[Step]], None]


class ExactOperator:
    """The operator for one expert shape under one numerics profile, with all of its memory.

    Args:
        hidden: H, a multiple of 32.
        ffn: F, a multiple of 32.
        max_rows: the most records of a call.
        profile_name: a numerics profile.
        vtcm_bytes: capacity of VTCM.

    Raises:
        EStreamError: no such profile, or a shape that doesn't fit the capacity.
    """

    def __init__(
        self, hidden: int, ffn: int, max_rows: int, profile_name: str, vtcm_bytes: int = DEFAULT_VTCM_BYTES
    ) -> None:
        self.hidden, self.ffn, self.profile = hidden, ffn, profile(profile_name)
        self.plan = plan_tiles(hidden, ffn, max_rows, vtcm_bytes)
        self._vtcm = np.zeros(self.plan.used_bytes, np.uint8)
        self._regions = {r.name: self._vtcm[r.offset : r.end] for r in self.plan.regions}
        self._regions["silu"].view(np.uint16)[:] = silu_table()
        self._room = [Operands(self.profile) for _ in range(threads())]
        self.max_rows = max_rows

    @property
    def nbytes(self) -> int:
        """Bytes of VTCM, as far as the plan uses it, and of the temporaries, steps among them."""
        rooms = sum(room.nbytes for room in self._room)
        return self._vtcm.nbytes + rooms + _passing_bytes(self.plan, self.max_rows)

    @staticmethod
    def bytes_for(hidden: int, ffn: int, max_rows: int, threads: int, profile_name: str, vtcm_bytes: int) -> int:
        """`nbytes` of an operator of this size.

        Raises:
            EStreamError: no such profile, or a shape that doesn't fit the capacity.
        """
        plan = plan_tiles(hidden, ffn, max_rows, vtcm_bytes)
        rooms = threads * Operands.bytes_for(profile(profile_name))
        return plan.used_bytes + rooms + _passing_bytes(plan, max_rows)

    @staticmethod
    def most_steps(hidden: int, ffn: int, max_rows: int, vtcm_bytes: int, slots: int, records: int) -> int:
        """No more steps than this for so many records in so many slots."""
        return _most_steps(plan_tiles(hidden, ffn, max_rows, vtcm_bytes), slots, records)

    def __call__(
        self,
        x: F32,
        y: F32,
        offsets: I64,
        token: I32,
        weight: F32,
        arena: U8,
        gate: I64,
        up: I64,
        down: I64,
        on_steps: StepListener | None = None,
    ) -> None:
        """Add the results of one bank's routes to y, slot by slot.

        Args:
            x: (T, H) float32, finite.
            y: (T, H) float32 to add to.
            offsets: (S + 1,) int64; slot s has the records offsets[s]..offsets[s + 1].
            token: (n,) int32, row of x and y of each record.
            weight: (n,) float32 of each record.
            arena: bytes that hold the slots' projections in q4-32x32.
            gate: (S,) int64, byte offset in `arena` of each slot's gate projection; those of empty slots are not read.
            up: (S,) int64, likewise.
            down: (S,) int64, likewise.
            on_steps: told each slot and its steps before they run.

        Raises:
            ValueError: shapes, offsets or places that don't fit, or more than `max_rows` records; y is as it was.
            OperandError: activations or weights of records that aren't finite, or a scale of 8192 or more; likewise.
        """
        x = as_input(x, np.float32, (None, self.hidden), "x")
        y = as_output(y, np.float32, (len(x), self.hidden), "y")
        records = Records.of(offsets, token, weight, len(x), self.max_rows)
        check_activations(x)
        planes = Planes.of(arena, (gate, up, down), self.hidden, self.ffn, len(offsets) - 1)
        checked = [(slot, planes.of_slot(slot)) for slot in records.slots]
        for slot, of_slot in checked:
            self._run_slot(slot, x, y, *records.of_slot(slot), of_slot, on_steps)

    def _run_slot(
        self, slot: int, x: F32, y: F32, token: I32, weight: F32, planes: list[U8], on_steps: StepListener | None
    ) -> None:
        """All steps of one slot; they are made for it and go with it."""
        run = steps(self.plan, len(token))
        if on_steps is not None:
            on_steps(slot, run)
        for step in run:
            self._run(step, x, y, token, weight, planes)

    def _bytes(self, access: Access) -> U8:
        return self._regions[access.region][access.offset : access.offset + access.bytes]

    def _codes(self, access: Access) -> U16:
        return self._bytes(access).view(np.uint16)

    def _run(self, step: Step, x: F32, y: F32, token: I32, weight: F32, planes: list[U8]) -> None:
        """One step; reads and writes come in the order that `Step` states."""
        if step.kind == "fetch":
            self._fetch(step, planes)
        elif step.kind == "decode":
            for packed, decoded in zip(step.reads, step.writes, strict=True):
                self._decode(self._bytes(packed).view(np.int32), self._bytes(decoded).view(np.int32))
        elif step.kind == "gather":
            self._gather(step, x.view(np.uint32).reshape(-1), token[step.first_row :], self._codes(step.writes[0]))
        elif step.kind == "matmul":
            operand, *weights, _ = step.reads
            pairs = [(self._codes(w), self._codes(out)) for w, out in zip(weights, step.writes, strict=True)]
            self._multiply(step, self._codes(operand), pairs)
        elif step.kind == "swiglu":
            gate, up, table = (self._codes(access) for access in step.reads)
            tiles = self._regions["swiglu"].view(np.uint16)
            swiglu_tiles(gate, up, step.rows, step.columns, table, step.first_column, self.ffn, tiles)
        else:
            out, flat = self._codes(step.reads[0]), y.reshape(-1)
            scatter_tiles(
                out,
                token,
                weight,
                step.first_row,
                step.rows,
                step.first_column,
                step.columns,
                self.hidden,
                CLAMPED_VALUES,
                flat,
            )

    def _fetch(self, step: Step, planes: list[U8]) -> None:
        """What DMA does: a panel is whole strips, so it is one run of bytes of its projection."""
        wanted = planes[:2] if step.projection == "gate_up" else planes[2:]
        inputs = self.hidden if step.projection == "gate_up" else self.ffn
        first = step.first_column // STRIP * (inputs // STRIP) * BLOCK_BYTES
        for plane, access in zip(wanted, step.writes, strict=True):
            self._bytes(access)[:] = plane[first : first + access.bytes]

    def _gather(self, step: Step, x: U32, token: I32, tiles: U16) -> None:
        rows = len(tiles) // self.hidden  # whole tiles

        def share(index: int, shares: int, worker: int) -> None:
            begin, end = rows * index // shares, rows * (index + 1) // shares
            gather_tiles(x, token, step.rows, self.hidden, tiles, begin, end)

        run_shares(share, rows, threads())

    def _decode(self, packed: I32, pairs: I32) -> None:
        blocks = packed.nbytes // BLOCK_BYTES

        def share(index: int, shares: int, worker: int) -> None:
            decode_blocks(packed, pairs, blocks * index // shares, blocks * (index + 1) // shares)

        run_shares(share, blocks, threads())

    def _multiply(self, step: Step, operand: U16, pairs: list[tuple[U16, U16]]) -> None:
        """The products of one step, gate and up side by side."""
        depth = self.hidden if step.projection == "gate_up" else self.ffn
        strips, workers = step.columns // STRIP, min(threads(), len(self._room))
        cuts = max(-(-strips // MOST_STRIPS), min(strips, -(-workers // len(pairs))))
        tasks = [(*p, range(strips * i // cuts, strips * (i + 1) // cuts)) for p in pairs for i in range(cuts)]

        def share(index: int, shares: int, worker: int) -> None:
            for weights, out, some in tasks[len(tasks) * index // shares : len(tasks) * (index + 1) // shares]:
                room = self._room[worker]
                multiply_strips(operand, weights, out, step.rows, depth, some, step.columns, self.profile, room)

        run_shares(share, len(tasks), workers)


def _most_steps(plan: TilePlan, slots: int, records: int) -> int:
    return (slots + records // plan.rows) * (1 + 4 * (plan.ffn_panels + plan.hidden_panels))


def _passing_bytes(plan: TilePlan, max_rows: int) -> int:
    """What a call makes and lets go: one projection's scales to look at, then the steps of a slot with all records."""
    return max(checking_bytes(plan.hidden, plan.ffn), STEP_BYTES * _most_steps(plan, 1, max_rows))
