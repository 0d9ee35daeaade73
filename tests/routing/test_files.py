"""Route files restore every bit, and a bad file is refused by line."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes, read_routes, synthetic_routes, write_routes

WEIGHT = st.floats(width=32, allow_nan=False, allow_infinity=False)
EXPERT = st.integers(0, 2**31 - 1)


@st.composite
def even(draw: st.DrawFn) -> Routes:
    """Every token has k routes, as a router gives."""
    tokens, top_k = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    size = tokens * top_k
    ids = draw(st.lists(EXPERT, min_size=size, max_size=size))
    weights = draw(st.lists(WEIGHT, min_size=size, max_size=size))
    return Routes.from_topk(np.reshape(ids, (tokens, top_k)), np.reshape(weights, (tokens, top_k)))


@st.composite
def ragged(draw: st.DrawFn) -> Routes:
    """Tokens with differing numbers of routes, some with none."""
    token = sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=12)))
    size = len(token)
    expert = draw(st.lists(EXPERT, min_size=size, max_size=size))
    return Routes(token, expert, draw(st.lists(WEIGHT, min_size=size, max_size=size)))


FAST = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)  # the file is overwritten


@FAST
@given(st.dictionaries(st.integers(0, 60), ragged(), max_size=4))
def test_csv_restores_every_bit(tmp_path: Path, layers: dict[int, Routes]) -> None:
    write_routes(tmp_path / "r.csv", layers)
    again = read_routes(tmp_path / "r.csv")
    assert again == layers
    assert list(again) == list(layers)


@FAST
@given(st.dictionaries(st.integers(0, 60), even(), max_size=4))
def test_jsonl_restores_every_bit(tmp_path: Path, layers: dict[int, Routes]) -> None:
    write_routes(tmp_path / "r.jsonl", layers)
    assert read_routes(tmp_path / "r.jsonl") == layers


def test_the_forms_are_the_documented_ones(tmp_path: Path) -> None:
    layers = {3: Routes.from_topk([[4, 1], [0, 5]], [[0.5, 0.25], [1.0, -0.0]])}
    write_routes(tmp_path / "r.csv", layers)
    assert (tmp_path / "r.csv").read_bytes() == (
        b"layer,token,k,expert,weight\n3,0,0,4,0.5\n3,0,1,1,0.25\n3,1,0,0,1.0\n3,1,1,5,-0.0\n"
    )
    write_routes(tmp_path / "r.jsonl", layers)
    assert json.loads((tmp_path / "r.jsonl").read_text()) == {
        "step": 0, "stage": "pre_dispatch", "block": "decoder", "layer": 3, "rank": 0, "num_tokens": 2, "topk": 2,
        "top_indices": [[4, 1], [0, 5]], "top_weights": [[0.5, 0.25], [1.0, -0.0]],
    }  # fmt: skip


def test_reads_a_trace_of_megatron(tmp_path: Path) -> None:
    line = {"step": 0, "stage": "pre_dispatch", "block": "decoder", "layer": 3, "rank": 0, "num_tokens": 2, "topk": 1,
            "top_indices": [[12], [45]], "hs_offset": 0, "hs_bytes": 16, "hs_shape": [2, 4]}  # fmt: skip
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(line) + "\n")
    assert read_routes(path, weight_if_absent=0.5) == {3: Routes([0, 1], [12, 45], [0.5, 0.5])}
    with pytest.raises(EStreamError, match="line 1: top_weights missing.*weight_if_absent=1/topk"):
        read_routes(path)


def test_files_of_other_programs_may_end_lines_with_cr(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b"layer,token,k,expert,weight\r\n0,2,0,1,0.5\r\n")
    assert read_routes(tmp_path / "r.csv") == {0: Routes([2], [1], [0.5])}


HEADER = "layer,token,k,expert,weight\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the columns must be layer,token,k,expert,weight"),
        ("layer,token,expert,weight\n0,0,1,0.5\n", "line 1: the columns must be"),
        (HEADER + "0,0,0,1,0.5\n0,0,1,2\n", "line 3: 4 columns where 5 are due"),
        (HEADER + "0,0,0,1,0.5", "line 2: the last line has no end"),
        (HEADER + "0,0,0,1,0.5\n\n", "line 3: 1 columns"),
        (HEADER + "0,0,0,-1,0.5\n", "line 2: expert is -1"),
        (HEADER + "0,0,0,8,0.5\n", "line 2: expert is 8, but must be a whole number from 0 to 7"),
        (HEADER + "0,0,0,1.0,0.5\n", "line 2: expert is '1.0'"),
        (HEADER + "0,0,0,1,nan\n", "line 2: weight is nan"),
        (HEADER + "0,0,0,1,1e39\n", "line 2: weight is 1e\\+39"),
        (HEADER + "0,0,0,1,half\n", "line 2: weight is 'half'"),
        (HEADER + "0,0,1,1,0.5\n", "line 2: k is 1 where 0 is due"),
        (HEADER + "0,0,0,1,0.5\n0,0,2,1,0.5\n", "line 3: k is 2 where 1 is due"),
        (HEADER + "0,0,0,1,0.5\n0,0,0,1,0.5\n", "line 3: k is 0 where 1 is due"),
        (HEADER + "0,1,0,1,0.5\n0,0,0,1,0.5\n", "line 3: token 0 follows token 1"),
        (HEADER + "0,0,0,1,0.5\n1,0,0,1,0.5\n0,1,0,1,0.5\n", "line 4: layer 0 comes back"),
        (HEADER + "4294967296,0,0,1,0.5\n", "line 2: layer is 4294967296"),
    ],
)
def test_refuses_bad_csv_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(text)
    with pytest.raises(EStreamError, match=f"r.csv, {message}"):
        read_routes(path, experts=8)


GOOD = {"layer": 0, "num_tokens": 2, "topk": 2, "top_indices": [[1, 2], [3, 4]], "top_weights": [[0.5, 0.5], [1, 0]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": None}, "layer is None"),
        ({"layer": True}, "layer is True"),
        ({"num_tokens": 3}, "top_indices must be a list of num_tokens = 3"),
        ({"topk": 3}, "top_indices of token 0 must be a list of topk = 3"),
        ({"top_indices": [[1, 2], [3]]}, "top_indices of token 1"),
        ({"top_indices": [[1, 2], [3, 8]]}, "an expert of top_indices is 8"),
        ({"top_indices": [[1, 2], [3, 4.0]]}, "an expert of top_indices is 4.0"),
        ({"top_weights": [[0.5, 0.5]]}, "top_weights must be a list of num_tokens = 2"),
        ({"top_weights": [[0.5, 0.5], [float("nan"), 0]]}, "a weight of top_weights is nan"),
        ({"top_weights": [[0.5, 0.5], [1e39, 0]]}, "a weight of top_weights is 1e\\+39"),
        ({"block": "mtp"}, "block is 'mtp'"),
    ],
)
def test_refuses_bad_jsonl_by_line(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**GOOD, "layer": 9}) + "\n" + json.dumps({**GOOD, **change}) + "\n")
    with pytest.raises(EStreamError, match=f"r.jsonl, line 2: {message}"):
        read_routes(path, experts=8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(GOOD)[:-9] + "\n", "line 1: this is not JSON"),
        (json.dumps(GOOD), "line 1: the last line has no end"),
        ("[1]\n", "line 1: this is not a JSON object"),
        ("[" * 100_000 + "\n", "line 1: this is not JSON"),
        ('{"layer": 0, "topk": 1}\n', "line 1: num_tokens, top_indices missing"),
        (2 * (json.dumps(GOOD) + "\n"), "line 2: layer 0 comes twice"),
    ],
)
def test_refuses_broken_jsonl(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(EStreamError, match=message):
        read_routes(path)


def test_a_spreadsheets_mark_and_line_ends_are_read_over(tmp_path: Path) -> None:
    write_routes(tmp_path / "r.csv", {0: Routes([0], [1], [0.5])})
    content = (tmp_path / "r.csv").read_bytes()
    (tmp_path / "r.csv").write_bytes(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))
    assert read_routes(tmp_path / "r.csv") == {0: Routes([0], [1], [0.5])}


def test_a_number_with_underscores_is_none(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("layer,token,k,expert,weight\n1_0,0,0,1,0.5\n")
    with pytest.raises(EStreamError, match="line 2: layer is '1_0'"):
        read_routes(tmp_path / "r.csv")


def test_refuses_other_files(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match=r"\.csv or \.jsonl"):
        read_routes(tmp_path / "r.json")
    with pytest.raises(EStreamError, match=r"none\.csv: No such file"):
        read_routes(tmp_path / "none.csv")
    (tmp_path / "r.csv").write_bytes(b"\xff\xfe\n")
    with pytest.raises(EStreamError, match="not UTF-8"):
        read_routes(tmp_path / "r.csv")
    with pytest.raises(EStreamError, match="Cannot write routes"):
        write_routes(tmp_path / "nowhere" / "r.csv", {})


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    good = synthetic_routes(4, 8, 2, alpha=3, seed=0)
    write_routes(path, {0: good})
    with pytest.raises(EStreamError, match="layer 5 do not all have the same number of routes"):
        write_routes(path, {1: good, 5: Routes([0, 0, 1], [1, 2, 3], [1, 1, 1])})
    with pytest.raises(EStreamError, match="Layer 5 has no routes"):
        write_routes(tmp_path / "r.csv", {5: Routes([], [], [])})
    assert os.listdir(tmp_path) == ["r.jsonl"]
    assert read_routes(path) == {0: good}


def test_a_written_file_has_the_usual_rights(tmp_path: Path) -> None:
    write_routes(tmp_path / "r.csv", {})
    (tmp_path / "other").touch()
    assert (tmp_path / "r.csv").stat().st_mode == (tmp_path / "other").stat().st_mode
