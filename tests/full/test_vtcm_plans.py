"""Tile plans of random expert shapes in random VTCM: none lets a stage overwrite a live value, and no wait can go."""

import dataclasses
import random
from collections import Counter

from estream_lab.errors import EStreamError
from estream_lab.kernels.vtcm import TilePlan, check, least_vtcm, plan_for, plan_tiles, steps

PLANS = 10_000


def random_plan(rng: random.Random) -> TilePlan:
    """Half of them as planned, half with tile sizes of somebody's choice."""
    hidden, ffn = 32 * rng.randint(1, 24), 32 * rng.randint(1, 24)
    vtcm = int(least_vtcm(hidden, ffn) * rng.uniform(0.8, 4.0))
    if rng.random() < 0.5:
        return plan_tiles(hidden, ffn, rng.randint(1, 400), vtcm)
    nf, nd = (32 * rng.randint(max(1, size // 320), size // 32) for size in (ffn, hidden))
    return plan_for(hidden, ffn, 32 * rng.randint(1, 6), nf, nd, vtcm)


def test_random_shapes_in_random_vtcm() -> None:
    rng = random.Random(2609)
    counts = Counter[str]()
    while counts["planned"] < PLANS and counts["refused"] < PLANS:
        try:
            plan = random_plan(rng)
        except EStreamError as refusal:
            counts["refused"] += 1
            counts["regions named"] += "the region " in str(refusal)
            continue
        rows = rng.randint(1, 2 * plan.rows + 1)
        made = steps(plan, rows)
        assert check(plan, made) == []
        counts["planned"] += 1
        counts["steps"] += len(made)
        counts["several row tiles"] += plan.row_tiles(rows) > 1
        if counts["planned"] % 25 == 0:
            waiting = rng.choice([step for step in made if step.waits])
            lax = list(made)
            lax[waiting.index] = dataclasses.replace(waiting, waits=())
            assert any(overlap.fault == "unordered" for overlap in check(plan, lax))
            counts["waits removed"] += 1
    assert counts["planned"] == PLANS and counts["regions named"] == counts["refused"] > 2000
    assert counts["several row tiles"] > 4000
    assert counts["steps"] > 500_000 and counts["waits removed"] == PLANS // 25


def test_every_wait_of_a_sample_of_plans() -> None:
    rng = random.Random(6551)
    removed = 0
    for _ in range(25):
        hidden, ffn = 32 * rng.randint(1, 12), 32 * rng.randint(1, 12)
        plan = plan_tiles(hidden, ffn, 64, int(least_vtcm(hidden, ffn) * rng.uniform(1.0, 1.6)))
        made = steps(plan, rng.randint(1, 2 * plan.rows + 1))
        for step in made:
            if step.waits:
                lax = list(made)
                lax[step.index] = dataclasses.replace(step, waits=())
                found = check(plan, lax)
                assert (step.waits[0], step.index) in {(overlap.earlier, overlap.later) for overlap in found}
                removed += 1
    assert removed > 500
