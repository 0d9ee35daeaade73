import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.kernels.layout import pack_q4_32x32, projection_bytes
from estream_lab.kernels.vtcm import plan as module
from estream_lab.kernels.vtcm.plan import (
    SCALE_BYTES,
    SILU_BYTES,
    TilePlan,
    fp16_bytes,
    least_vtcm,
    packed_bytes,
    plan_for,
    plan_tiles,
    whole_tiles,
)

MIB = 1 << 20

# H, F of OLMoE, LFM2, DeepSeek-V2-Lite, Qwen3-30B-A3B and Mixtral; (M, Nf, Nd) for 256 rows in 8 MiB; least VTCM
FIVE_SHAPES = [
    (2048, 1024, (256, 256, 256), 1_007_872),
    (2048, 1792, (256, 256, 256), 1_057_024),
    (2048, 1408, (256, 256, 256), 1_032_448),
    (2048, 768, (256, 256, 256), 991_488),
    (4096, 14336, (128, 64, 32), 3_670_272),
]

multiples = st.integers(1, 24).map(lambda n: 32 * n)


@pytest.mark.parametrize(("ffn", "mebibytes"), [(1024, 4.4), (1792, 4.8)])
def test_totals_of_the_two_shapes_whose_figures_are_known(ffn: int, mebibytes: float) -> None:
    plan = plan_for(2048, ffn, 256, 128, 128, 8 * MIB)
    assert round(plan.used_bytes / MIB, 1) == mebibytes
    activations, swiglu = 256 * 2048 * 2, 256 * ffn * 2
    compressed, decoded = 2 * 4 * 64 * 576, 2 * 128 * 2048 * 2  # gate and up, 4 strips of 64 blocks each
    output = 256 * 128 * 2
    assert plan.used_bytes == activations + swiglu + 2 * compressed + 2 * decoded + 4 * output + 128 * 1024 + 256


@pytest.mark.parametrize(("hidden", "ffn", "tiles", "least"), FIVE_SHAPES)
def test_plans_of_the_five_shapes(hidden: int, ffn: int, tiles: tuple[int, int, int], least: int) -> None:
    plan = plan_tiles(hidden, ffn, 256, 8 * MIB)
    assert (plan.rows, plan.ffn_columns, plan.hidden_columns) == tiles
    assert plan.used_bytes <= 8 * MIB
    assert least_vtcm(hidden, ffn) == least
    smallest = plan_tiles(hidden, ffn, 256, least)
    assert (smallest.rows, smallest.ffn_columns, smallest.hidden_columns) == (32, 32, 32)
    assert smallest.used_bytes == least
    with pytest.raises(EStreamError, match=f"{least:,} bytes or more"):
        plan_tiles(hidden, ffn, 256, least - 1)


@pytest.mark.parametrize(("hidden", "ffn", "tiles", "least"), FIVE_SHAPES)
def test_less_vtcm_never_means_fewer_row_tiles(hidden: int, ffn: int, tiles: tuple[int, int, int], least: int) -> None:
    plans = [plan_tiles(hidden, ffn, 256, vtcm) for vtcm in np.linspace(least, 8 * MIB, 9).astype(int).tolist()]
    counts = [plan.row_tiles(256) for plan in plans]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 8 and counts[-1] == 256 // tiles[0]


def check_partition(plan: TilePlan) -> None:
    end = 0
    for region in plan.regions:
        packed = region.name.startswith("compressed")
        assert region.offset % (128 if packed else 2048) == 0
        assert end <= region.offset < end + 2048
        end = region.end
    assert end == plan.used_bytes <= plan.vtcm_bytes
    assert len({region.name for region in plan.regions}) == 12


def check_sizes(plan: TilePlan) -> None:
    size = {region.name: region.bytes for region in plan.regions}
    assert size["activations"] == plan.rows * plan.hidden * 2
    assert size["swiglu"] == plan.rows * plan.ffn * 2
    assert (size["silu"], size["scale"]) == (SILU_BYTES, SCALE_BYTES)
    blocks = max(2 * plan.ffn_columns * plan.hidden, plan.hidden_columns * plan.ffn) // 1024
    for i in range(2):
        assert size[f"compressed{i}"] == blocks * 576
        assert size[f"decoded{i}"] == blocks * 2048
    for i in range(4):
        assert size[f"output{i}"] == plan.rows * max(plan.ffn_columns, plan.hidden_columns) * 2


@given(multiples, multiples, st.integers(1, 600), st.integers(150_000, 4 * MIB), st.sampled_from([32, 96, 256]))
def test_a_plan_is_a_partition_or_a_refusal_that_was_due(
    hidden: int, ffn: int, rows: int, vtcm: int, max_rows: int
) -> None:
    if vtcm < least_vtcm(hidden, ffn):
        with pytest.raises(EStreamError):
            plan_tiles(hidden, ffn, rows, vtcm, max_rows=max_rows)
        return
    plan = plan_tiles(hidden, ffn, rows, vtcm, max_rows=max_rows)
    check_partition(plan)
    check_sizes(plan)
    assert plan_tiles(hidden, ffn, rows, plan.used_bytes, max_rows=max_rows).regions == plan.regions
    assert plan.rows <= min(max_rows, whole_tiles(rows))
    assert (plan.ffn_panels - 1) * plan.ffn_columns < ffn <= plan.ffn_panels * plan.ffn_columns
    assert (plan.hidden_panels - 1) * plan.hidden_columns < hidden <= plan.hidden_panels * plan.hidden_columns


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 200), st.integers(140_000, 900_000))
@example(3, 5, 100, 280_000)
def test_no_other_tile_sizes_do_better(hidden: int, ffn: int, rows: int, vtcm: int) -> None:
    hidden, ffn = 32 * hidden, 32 * ffn
    fitting = []
    sizes = (range(32, whole_tiles(rows) + 1, 32), range(32, ffn + 1, 32), range(32, hidden + 1, 32))
    for tile_rows, ffn_columns, hidden_columns in itertools.product(*sizes):
        try:
            plan = plan_for(hidden, ffn, tile_rows, ffn_columns, hidden_columns, vtcm)
        except EStreamError:
            continue
        panels = plan.ffn_panels + plan.hidden_panels
        fitting.append((plan.row_tiles(rows), panels, plan.used_bytes, ffn_columns, plan))
    if fitting:
        assert plan_tiles(hidden, ffn, rows, vtcm) == min(fitting, key=lambda candidate: candidate[:4])[4]
    else:
        with pytest.raises(EStreamError):
            plan_tiles(hidden, ffn, rows, vtcm)


def test_a_refusal_names_the_first_region_that_does_not_fit() -> None:
    smallest = plan_for(2048, 1024, 32, 32, 32, 8 * MIB)
    for region in smallest.regions:
        vtcm = region.end - 1
        with pytest.raises(EStreamError) as refused:
            plan_tiles(2048, 1024, 100, vtcm)
        message = str(refused.value)
        assert f"the region {region.name} takes {region.bytes:,} bytes" in message
        assert f"{region.bytes - 1:,} of {vtcm:,} bytes of VTCM are left" in message
        assert "choose smaller tiles" not in message


def test_sizes_of_the_users_choice_are_refused_by_name() -> None:
    with pytest.raises(
        EStreamError,
        match=r"region decoded0 .* choose smaller tiles, which take 3,670,272 bytes at least, "
        r"or give it 23,920,896 bytes or more$",
    ):
        plan_for(4096, 14336, 128, 256, 256, 8 * MIB)
    with pytest.raises(EStreamError, match=r"region swiglu .* no tiles fit: give it 3,670,272 bytes or more$"):
        plan_for(4096, 14336, 128, 256, 256, MIB)
    with pytest.raises(EStreamError, match="rows is 33"):
        plan_for(64, 64, 33, 32, 32, MIB)
    with pytest.raises(EStreamError, match="hidden_columns is 0"):
        plan_for(64, 64, 32, 32, 0, MIB)
    with pytest.raises(EStreamError, match="96 ffn columns where there are 64"):
        plan_for(128, 64, 32, 96, 96, MIB)
    with pytest.raises(EStreamError, match="hidden is 100"):
        plan_tiles(100, 64, 32, MIB)
    with pytest.raises(EStreamError, match="max_rows is 40"):
        plan_tiles(64, 64, 32, MIB, max_rows=40)
    with pytest.raises(EStreamError, match="0 rows"):
        plan_tiles(64, 64, 0, MIB)
    with pytest.raises(EStreamError, match="ffn is 16"):
        least_vtcm(64, 16)


@pytest.mark.parametrize(("hidden", "ffn"), [(128, 192), (2048, 1024), (4096, 14336)])
def test_what_a_refusal_names_works_and_a_byte_less_does_not(hidden: int, ffn: int) -> None:
    """For the planner's tiles and for tiles of one's own."""
    for vtcm in (1, 64 << 10, least_vtcm(hidden, ffn) - 1):
        with pytest.raises(EStreamError) as refused:
            plan_tiles(hidden, ffn, 300, vtcm)
        named = int(str(refused.value).split("give it ")[1].split(" bytes")[0].replace(",", ""))
        plan_tiles(hidden, ffn, 300, named)
        with pytest.raises(EStreamError):
            plan_tiles(hidden, ffn, 300, named - 1)
    with pytest.raises(EStreamError) as refused:
        plan_for(hidden, ffn, 64, 64, 64, least_vtcm(hidden, ffn))
    named = int(str(refused.value).split("give it ")[1].split(" bytes")[0].replace(",", ""))
    assert plan_for(hidden, ffn, 64, 64, 64, named).used_bytes == named


def test_a_capacity_that_no_address_reaches_is_refused() -> None:
    assert plan_tiles(2048, 1024, 256, 4 << 30) == replace(plan_tiles(2048, 1024, 256, 8 * MIB), vtcm_bytes=4 << 30)
    with pytest.raises(EStreamError, match="4,294,967,297 bytes is more than a 32-bit address reaches: give 4GiB or"):
        plan_tiles(2048, 1024, 256, (4 << 30) + 1)


@given(st.integers(1, 3000), st.sampled_from([32, 96, 256]), st.integers(140_000, 600_000))
def test_row_tiles_are_tried_from_the_fewest_on(rows: int, max_rows: int, vtcm: int) -> None:
    """By every count of row tiles in turn, which takes long for many rows."""
    for row_tiles in range(-(-rows // max_rows), -(-rows // 32) + 1):
        tile_rows = whole_tiles(-(-rows // row_tiles))
        try:
            plan_for(96, 128, tile_rows, 32, 32, vtcm)
        except EStreamError:
            continue
        assert plan_tiles(96, 128, rows, vtcm, max_rows=max_rows).rows == tile_rows
        return
    with pytest.raises(EStreamError):
        plan_tiles(96, 128, rows, vtcm, max_rows=max_rows)


def test_records_beyond_all_number_are_planned_at_once() -> None:
    calls = Counter[str]()
    with pytest.MonkeyPatch.context() as patch:
        one = module._widest
        patch.setattr(module, "_widest", lambda *sizes: (calls.update(["tried"]), one(*sizes))[1])
        assert plan_tiles(96, 128, 10**17, 200_000).rows == 32
        with pytest.raises(EStreamError):
            plan_tiles(96, 128, 10**17, 100_000)
    assert 0 < calls["tried"] <= 2 * 8


def test_a_packed_panel_is_one_run_of_bytes_of_its_projection() -> None:
    rng = np.random.default_rng(5)
    q = rng.integers(0, 16, (192, 96), np.uint8)  # (N, K)
    d = rng.standard_normal((192, 3)).astype(np.float16)  # (N, K/32)
    whole = pack_q4_32x32(q, d)
    for first, columns in ((0, 64), (64, 128), (128, 64)):
        alone = pack_q4_32x32(q[first : first + columns], d[first : first + columns])
        start = packed_bytes(first, 96)
        assert np.array_equal(whole[start : start + packed_bytes(columns, 96)], alone)
    assert packed_bytes(192, 96) == projection_bytes("q4-32x32", 192, 96)
    assert fp16_bytes(192, 96) == 6 * 3 * 2048


def test_a_name_that_is_no_region_is_an_error() -> None:
    plan = plan_tiles(64, 64, 32, MIB)
    assert plan.region("swiglu").offset == plan.region("activations").end
    with pytest.raises(KeyError):
        plan.region("swiglu0")
