"""The exact operator: steps run in any order that keeps their waits, refusals, and what listeners are told."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.kernels import host
from estream_lab.kernels.exact import ExactOperator, profile
from estream_lab.kernels.exact import operator as module
from estream_lab.kernels.exact.matmul import MOST_STRIPS, Operands, multiply_strips
from estream_lab.kernels.layout import unpack_tiles
from estream_lab.kernels.vtcm import Step, check, plan_tiles, steps
from tests.kernels.exact.test_census import Bank, equal

HIDDEN, FFN, ROWS, VTCM = 160, 224, 70, 235_000  # three row tiles, seven and five panels


@pytest.fixture(scope="module")
def bank() -> Bank:
    return Bank(HIDDEN, FFN, 1, np.random.default_rng(11))


def run(bank: Bank, order: tuple[Step, ...] | None = None, vtcm_bytes: int = VTCM) -> np.ndarray:
    rng = np.random.default_rng(12)
    x = rng.standard_normal((ROWS, HIDDEN)).astype(np.float32)
    y = np.zeros_like(x)
    operator = ExactOperator(HIDDEN, FFN, ROWS, "hmx_v75_g8", vtcm_bytes)
    token = rng.permutation(ROWS).astype(np.int32)
    weight = rng.random(ROWS).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        if order is not None:
            patch.setattr(module, "steps", lambda plan, rows: order)
        operator(x, y, np.array([0, ROWS]), token, weight, bank.arena, *bank.planes)
    return y


def legal_order(made: tuple[Step, ...], rng: np.random.Generator) -> tuple[Step, ...]:
    """Steps as units might end them: each after what it waits for and after the one before it on its unit."""
    left = {unit: [s for s in made if s.unit == unit] for unit in ("dma", "vector", "matrix")}
    done: set[int] = set()
    order: list[Step] = []
    while any(left.values()):
        ready = [queue for queue in left.values() if queue and done.issuperset(queue[0].waits)]
        step = ready[rng.integers(len(ready))].pop(0)
        done.add(step.index)
        order.append(step)
    return tuple(order)


def test_any_order_that_keeps_the_waits_gives_the_same_bytes(bank: Bank) -> None:
    expected = run(bank)
    made = steps(ExactOperator(HIDDEN, FFN, ROWS, "hmx_v75_g8", VTCM).plan, ROWS)
    rng, seen = np.random.default_rng(13), set()
    for _ in range(6):
        order = legal_order(made, rng)
        seen.add(tuple(step.index for step in order))
        assert equal(run(bank, order), expected)
    assert len(seen) == 6


def test_without_a_wait_the_checker_objects_and_the_bytes_change(bank: Bank) -> None:
    expected = run(bank)
    made = steps(ExactOperator(HIDDEN, FFN, ROWS, "hmx_v75_g8", VTCM).plan, ROWS)
    changed = 0
    for index in [s.index for s in made if s.waits][::9]:
        loose = tuple(replace(s, waits=()) if s.index == index else s for s in made)
        assert check(ExactOperator(HIDDEN, FFN, ROWS, "hmx_v75_g8", VTCM).plan, loose)
        early = loose[index]  # as soon as its unit comes to it, before what it should have waited for
        first = max((s.index for s in made[:index] if s.unit == early.unit), default=-1) + 1
        order = (*loose[:first], early, *(s for s in loose[first:] if s.index != index))
        changed += not equal(run(bank, order), expected)
    assert changed >= 5


def test_the_capacity_changes_no_bit(bank: Bank) -> None:
    assert equal(run(bank), run(bank, vtcm_bytes=8 << 20))


def test_memory_is_what_was_foretold() -> None:
    operator = ExactOperator(HIDDEN, FFN, ROWS, "hmx_v75_g8", VTCM)
    assert operator.nbytes == ExactOperator.bytes_for(HIDDEN, FFN, ROWS, len(operator._room), "hmx_v75_g8", VTCM)
    assert operator.nbytes > operator.plan.used_bytes


def peak_bytes(call: Callable[[], object]) -> int:
    """The most that a call has at a time, after one that made what stays."""
    call()
    tracemalloc.start()
    try:
        kept = call()
        peak = tracemalloc.get_traced_memory()[1]
        del kept
    finally:
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    ("hidden", "ffn", "rows", "vtcm_bytes"),
    [
        (2048, 1024, 256, 8 << 20), (2048, 768, 500, 2 << 20), (2048, 1408, 100, 1_100_000), (64, 32, 256, 170_000),
        (4096, 14336, 256, 7_340_544),
    ],
)  # fmt: skip
def test_a_step_takes_no_more_than_is_counted_and_half_of_it_at_least(
    hidden: int, ffn: int, rows: int, vtcm_bytes: int
) -> None:
    plan = plan_tiles(hidden, ffn, rows, vtcm_bytes)
    count, peak = len(steps(plan, rows)), peak_bytes(lambda: steps(plan, rows))
    assert module.STEP_BYTES * count / 2 < peak < module.STEP_BYTES * count


@pytest.mark.parametrize("counts", [[64], [1, 62, 1], [33, 31], [1] * 64])
def test_a_call_takes_what_was_foretold_beside_vtcm_and_rooms(counts: list[int]) -> None:
    """By one thread: the shares of others, which may stay in a queue for a while, are no part of it."""
    bank = Bank(HIDDEN, FFN, len(counts), np.random.default_rng(19))
    operator = ExactOperator(HIDDEN, FFN, 64, "ieee_fp32", VTCM)
    x = np.ones((64, HIDDEN), np.float32)
    y = np.zeros_like(x)
    routes = (np.cumsum([0, *counts]), np.arange(64, dtype=np.int32), np.ones(64, np.float32))
    host.set_threads(1)
    try:
        peak = peak_bytes(lambda: operator(x, y, *routes, bank.arena, *bank.planes))
    finally:
        host.set_threads(host.thread_limit())
    held = operator._vtcm.nbytes + sum(room.nbytes for room in operator._room)
    assert peak < operator.nbytes - held


def test_listeners_are_told_the_steps_of_every_slot_that_has_records(monkeypatch: pytest.MonkeyPatch) -> None:
    bank, told, ran = Bank(64, 32, 3, np.random.default_rng(14)), [], []
    operator = ExactOperator(64, 32, 8, "ieee_fp32")
    one = operator._run
    monkeypatch.setattr(operator, "_run", lambda step, *rest: (ran.append(step), one(step, *rest)))
    x = np.ones((4, 64), np.float32)
    routes = (np.array([0, 2, 2, 3]), np.zeros(3, np.int32), np.ones(3, np.float32))
    operator(x, x.copy(), *routes, bank.arena, *bank.planes, on_steps=lambda slot, s: told.append((slot, s)))
    assert [slot for slot, _ in told] == [0, 2]
    assert [step for _, made in told for step in made] == ran
    assert [len({s.rows for s in made}) for _, made in told] == [1, 1] and told[0][1][0].rows == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 2])}, "number of records"),
        ({"offsets": np.array([1, 1])}, "number of records"),
        ({"offsets": np.array([0, 2, 1])}, "number of records"),
        ({"token": np.array([2], np.int32)}, "names token"),
        ({"token": np.array([-1], np.int32)}, "names token"),
        ({"x": np.where(np.arange(128) == 70, np.nan, 1).reshape(2, 64).astype(np.float32)}, "not finite"),
        ({"x": np.where(np.arange(128) == 127, np.inf, 1).reshape(2, 64).astype(np.float32)}, "not finite"),
        ({"weight": np.full(1, np.nan, np.float32)}, "not finite"),
        ({"gate": np.zeros(2, np.int64)}, "gate must have shape"),
        ({"offsets": np.array([0, 9]), "token": np.zeros(9, np.int32), "weight": np.ones(9, np.float32)}, "than the 8"),
        ({"gate": np.array([1 << 20])}, "outside the arena"),
        ({"gate": np.array([-1])}, "outside the arena"),
    ],
)
def test_what_cannot_be_run_is_refused_before_y_changes(change: dict[str, np.ndarray], message: str) -> None:
    bank = Bank(64, 32, 1, np.random.default_rng(15))
    gate, up, down = bank.planes
    given = {
        "x": np.ones((2, 64), np.float32), "y": np.zeros((2, 64), np.float32), "offsets": np.array([0, 1]),
        "token": np.zeros(1, np.int32), "weight": np.ones(1, np.float32), "arena": bank.arena, "gate": gate, "up": up,
        "down": down,
    } | change  # fmt: skip
    with pytest.raises(ValueError, match=message):
        ExactOperator(64, 32, 8, "hmx_v75_g8")(**given)  # type: ignore[arg-type]
    assert not given["y"].any()


@pytest.mark.parametrize("plane", range(3))
def test_a_scale_that_overflows_is_refused_before_y_changes(plane: int) -> None:
    bank = Bank(64, 32, 2, np.random.default_rng(16))
    at = int(bank.planes[plane, 1]) + 512  # of the last slot
    bank.arena[at : at + 2] = np.array([8192], np.float16).view(np.uint8)
    x, y = np.ones((1, 64), np.float32), np.zeros((1, 64), np.float32)
    with pytest.raises(ValueError, match="8192"):
        ExactOperator(64, 32, 8, "hmx_v75_g8")(
            x, y, np.array([0, 1, 2]), np.zeros(2, np.int32), np.ones(2, np.float32), bank.arena, *bank.planes
        )
    assert not y.any()


def test_rows_that_fill_up_a_tile_are_zero() -> None:
    bank = Bank(64, 32, 1, np.random.default_rng(17))
    operator = ExactOperator(64, 32, 40, "hmx_v75_g8")
    operator._vtcm[: operator.plan.region("silu").offset] = 0xFF
    x = np.ones((1, 64), np.float32)
    routes = (np.array([0, 33]), np.zeros(33, np.int32), np.ones(33, np.float32))
    operator(x, np.zeros_like(x), *routes, bank.arena, *bank.planes)
    rows = unpack_tiles(operator._regions["activations"], 64, 64)
    assert (rows[:33] == 0x3C00).all() and not rows[33:].any()


def test_an_operator_made_for_one_thread_runs_on_one() -> None:
    bank = Bank(64, 128, 1, np.random.default_rng(18))
    x = np.ones((1, 64), np.float32)
    results = []
    for made_with in (1, 2):
        host.set_threads(min(made_with, host.thread_limit()))
        operator, y = ExactOperator(64, 128, 1, "hmx_v75_g8"), np.zeros_like(x)
        host.set_threads(host.thread_limit())
        operator(x, y, np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32), bank.arena, *bank.planes)
        results.append(y.tobytes())
    assert results[0] == results[1]


def test_a_shape_that_does_not_fit_is_refused_by_the_region() -> None:
    with pytest.raises(EStreamError, match="region .* takes"):
        ExactOperator(2048, 1024, 256, "hmx_v75_g8", 500_000)


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(EStreamError, match="choose one of ieee_fp32, hmx_v73_g4"):
        ExactOperator(64, 32, 8, "hmx_v99")
    assert module.DEFAULT_VTCM_BYTES == 8 << 20


def test_more_strips_than_fit_side_by_side_are_refused() -> None:
    tiles = np.zeros(MOST_STRIPS * 2048, np.uint16)
    chosen = profile("hmx_v75_g8")
    with pytest.raises(ValueError, match="5 strips are more than the 4"):
        multiply_strips(tiles, tiles, tiles, 1, 32, range(5), 160, chosen, Operands(chosen))
