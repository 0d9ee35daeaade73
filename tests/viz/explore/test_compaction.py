import numpy as np
import pytest

from estream_lab.experts import Arena, ExpertShape, RecordClass
from estream_lab.routing import synthetic_routes
from estream_lab.viz.explore import CompactionExplorer
from estream_lab.viz.figures.bound_route import PSI, RECORDS
from tests.viz.hand_made import drawn, plain

RECORD = RecordClass.of(ExpertShape(64, 96, ("q4-32x32",) * 3))
PLACEMENT = np.array([0, 1, 2, -1, -1, 3, 4, 5, -1, -1], np.int32)  # E = 10, two banks of three
ROUTES = synthetic_routes(30, 10, 2, alpha=3, seed=1)


@pytest.fixture
def explorer() -> CompactionExplorer:
    return CompactionExplorer(ROUTES, PLACEMENT, Arena(2, 3, RECORD.stride), RECORD, {"kind": "synthetic"})


def routes_in(bank: int, tokens: int) -> list[int]:
    return [
        i for i in range(2 * tokens) if PLACEMENT[ROUTES.expert[i]] // 3 == bank and PLACEMENT[ROUTES.expert[i]] >= 0
    ]


def click(explorer: CompactionExplorer, trace: int, point: int) -> None:
    """What the page sends when a reader clicks a point."""
    explorer.live._handle_custom_msg({"trace": trace, "point": point}, [])


def test_it_starts_on_a_route_that_is_bound(explorer: CompactionExplorer) -> None:
    assert explorer.values["route"] in routes_in(0, 16)
    assert len(explorer.live.shown.data[7].x) > 0  # weights are read


def test_a_click_tells_where_the_route_reads_and_writes(explorer: CompactionExplorer) -> None:
    for route in routes_in(0, 16):
        click(explorer, PSI, route)
        assert explorer.values["route"] == route
        token, slot = int(ROUTES.token[route]), int(PLACEMENT[ROUTES.expert[route]])
        gate = slot * RECORD.stride
        text = explorer.line.value
        assert text.startswith(f"<b>route {route}</b>: token {token} → expert {ROUTES.expert[route]}, ")
        assert f"ψ = slot {slot}, record " in text
        assert f"Reads X at p_X + {token} · 256 = {token * 256:,}; " in text
        assert f"gate {gate:,}, up {gate + RECORD.gate_bytes:,}, down {gate + 2 * RECORD.gate_bytes:,} " in text
        assert text.endswith(f"adds to Y at p_Y + {token} · 256 = {token * 256:,}.")
        assert list(explorer.live.shown.data[2].x) == [route]
        assert plain(explorer.live.shown)["data"] == drawn(explorer)["data"]


def test_a_click_on_a_record_chooses_its_route(explorer: CompactionExplorer) -> None:
    order = list(explorer.live.shown.data[RECORDS].y)
    assert sorted(order) == routes_in(0, 16)
    for record, route in enumerate(order):
        click(explorer, RECORDS, record)
        assert explorer.values["route"] == route
        assert f"record {record} of {len(order)}, " in explorer.line.value
        assert list(explorer.live.shown.data[3].x) == [record]


def test_a_click_on_what_is_no_route_changes_nothing(explorer: CompactionExplorer) -> None:
    before = explorer.line.value
    click(explorer, 4, 0)  # a border between slots
    click(explorer, PSI, 60)  # the page still showed more routes
    assert explorer.line.value == before


def test_another_bank_binds_its_own_routes(explorer: CompactionExplorer) -> None:
    explorer.controls["bank"].value = 1
    assert sorted(explorer.live.shown.data[RECORDS].y) == routes_in(1, 16)
    assert "lies in bank 0: the invocation of that bank binds it" in explorer.line.value
    click(explorer, PSI, routes_in(1, 16)[0])
    assert "Reads X at" in explorer.line.value


def test_an_expert_that_is_not_resident_has_no_slot(explorer: CompactionExplorer) -> None:
    click(explorer, PSI, next(i for i in range(32) if PLACEMENT[ROUTES.expert[i]] < 0))
    assert "ψ: none. Its expert is not resident" in explorer.line.value
    assert [len(explorer.live.shown.data[i].x) for i in (3, 7, 8)] == [0, 0, 0]


def test_the_capacity_cuts_the_records_into_invocations(explorer: CompactionExplorer) -> None:
    count = len(routes_in(0, 16))
    for capacity in (1, 3, 64):
        explorer.controls["capacity"].value = capacity
        assert f"of {-(-count // capacity)}.<br>" in explorer.line.value
        assert len(set(explorer.live.shown.data[5].x)) == -(-count // capacity) - 1


def test_fewer_tokens_have_fewer_routes_and_the_chosen_one_is_among_them(explorer: CompactionExplorer) -> None:
    explorer.controls["route"].value = 31
    explorer.controls["tokens"].value = 5
    assert explorer.values["route"] == 9
    assert explorer.line.value.startswith("<b>route 9</b>")
    assert len(explorer.live.shown.data[PSI].x) == 10
    explorer.controls["route"].value = 40  # there are ten
    assert explorer.values["route"] == 9
    explorer.controls["tokens"].value = 30
    explorer.controls["route"].value = 59
    assert explorer.controls["route"].max == explorer.values["route"] == 59
    assert plain(explorer.live.shown)["data"] == drawn(explorer)["data"]


@pytest.mark.parametrize(("k", "most"), [(2, 32), (5, 12), (8, 8), (80, 1)])
def test_no_more_routes_than_follow_the_hand(k: int, most: int) -> None:
    routes = synthetic_routes(40, 90, k, alpha=4, seed=1)
    placement = np.arange(90, dtype=np.int32)
    explorer = CompactionExplorer(routes, placement, Arena(2, 45, RECORD.stride), RECORD, {"kind": "synthetic"})
    assert explorer.controls["tokens"].max == most


def test_the_static_figure_tells_its_settings(explorer: CompactionExplorer) -> None:
    click(explorer, PSI, 7)
    assert explorer.figure.layout.title.subtitle.text.startswith(
        "T=16 bank=0 C=8 route=7 · gate 24,576 up 28,032 down 31,488<br>synthetic"
    )
