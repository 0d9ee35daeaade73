import numpy as np
import pytest

from estream_lab.kernels.vtcm import plan_for, plan_tiles, steps
from estream_lab.viz.explore import TilingExplorer
from estream_lab.viz.explore.tiling import CAPACITIES, SHAPES
from tests.viz.hand_made import same

SMALL = {"small: H 128, F 192": (128, 192), "wide: H 512, F 64": (512, 64)}


@pytest.fixture
def explorer() -> TilingExplorer:
    return TilingExplorer({"kind": "computed"}, SMALL, capacity=1 << 20)


def set_to(explorer: TilingExplorer, **values: object) -> str:
    for name, value in values.items():
        explorer.controls[name].value = value
    return str(explorer.line.value)


def test_it_offers_the_five_published_shapes_and_starts_with_a_plan_that_fits() -> None:
    shapes = list(TilingExplorer({"kind": "computed"}).controls["shape"].options)
    assert shapes == list(SHAPES) and len(shapes) == 5
    assert all(f"H {hidden}, F {ffn}" in name for name, (hidden, ffn) in SHAPES.items())
    assert "3.0 MiB of 8.0 MiB" in TilingExplorer({"kind": "computed"}).line.value


def test_the_line_tells_the_plan_and_the_planners_own(explorer: TilingExplorer) -> None:
    for tiles in ((64, 96, 64), (32, 32, 128), (96, 192, 96)):
        line = set_to(explorer, records=100, rows=tiles[0], ffn_columns=tiles[1], hidden_columns=tiles[2])
        plan = plan_for(128, 192, *tiles, 1 << 20)
        count = len(steps(plan, 100))
        each = f"{plan.ffn_panels} + {plan.hidden_panels} panels"
        assert f"row tiles: {plan.row_tiles(100)}, each of {each}: {count:,} steps" in line
        assert f"{plan.used_bytes / 1024:.1f} KiB of 1.0 MiB" in line
        best = plan_tiles(128, 192, 100, 1 << 20)
        assert f"M={best.rows} Nf={best.ffn_columns} Nd={best.hidden_columns}: " in line
        regions = explorer.live.shown.data[0]
        lefts = np.reshape(regions.x, (-1, 6))[:, 0] * 2**20
        assert np.array_equal(lefts, [*(region.offset for region in plan.regions), 1 << 20])  # and the capacity
        assert same(explorer)


def test_where_nothing_fits_the_sentence_says_which_region_and_nothing_runs(explorer: TilingExplorer) -> None:
    line = set_to(explorer, shape="wide: H 512, F 64", rows=256, hidden_columns=512, capacity=CAPACITIES[0])
    assert line.startswith("<b>These tiles don't fit:</b> an expert of H=512, F=64 in tiles of 256 rows")
    assert "the region decoded1 takes 131,072 bytes, 98,304 of 524,288 bytes of VTCM are left" in line
    assert np.isnan(np.array(explorer.live.shown.data[3].z, float)).all()
    assert "bytes or more" not in set_to(explorer, rows=32, hidden_columns=32)


def test_no_panel_is_wider_than_its_projection(explorer: TilingExplorer) -> None:
    set_to(explorer, ffn_columns=192)
    set_to(explorer, shape="wide: H 512, F 64")
    assert (explorer.controls["ffn_columns"].max, explorer.values["ffn_columns"]) == (64, 64)
    assert explorer.controls["hidden_columns"].max == 512
    assert "panels" in explorer.line.value


def test_the_window_moves_over_the_places(explorer: TilingExplorer) -> None:
    settings = {"shape": "wide: H 512, F 64", "records": 128, "rows": 64, "ffn_columns": 32, "hidden_columns": 32}
    found = {}
    for share in (0, 50, 100):
        line = set_to(explorer, **settings, share=share)
        heat = explorer.live.shown.data[3]
        first, width = int(heat.x0), len(heat.z[0])
        last = int(line.partition(" places ")[2].split(" of ")[1].split(" ")[0])
        assert f"places {first} to {first + width - 1} of {last} (128 records, " in line
        found[share] = (first, last - width)
    assert found[0][0] == 0 < found[50][0] < found[100][0] == found[100][1]


def test_two_row_tiles_are_drawn_and_the_line_says_so(explorer: TilingExplorer) -> None:
    line = set_to(explorer, records=300, rows=32, ffn_columns=192, hidden_columns=128)
    assert "(64 records, " in line and "row tiles: 10, " in line


def test_the_static_figure_tells_its_settings(explorer: TilingExplorer) -> None:
    set_to(explorer, records=7, rows=32)
    subtitle = explorer.figure.layout.title.subtitle.text
    assert subtitle.startswith("small: H 128, F 192, 7 records, M=32 Nf=64 Nd=64, 1.0 MiB<br>computed")
