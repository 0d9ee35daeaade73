"""estream bench schedules: every row, its bound, and nothing half written."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.cli import main
from estream_lab.cli.bench import comparison, samples
from estream_lab.cli.bench.samples import Sample, bare_reads
from estream_lab.errors import EStreamError
from estream_lab.streaming import Store
from tests.stores import SPEC, synthetic_store

SHAPE = ["--group-size", "3", "--banks", "2"]
ROWS = ["on-demand", "after-routing", "early", "early, carried over"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(synthetic_store(tmp_path_factory.mktemp("bench")))


def test_every_schedule_at_every_bandwidth_and_what_it_is_held_to(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "schedules", str(store.path), "--length", "20", "--rounds", "2", "--factors", "1", *SHAPE]
    assert main([*command, "--json", "-o", str(tmp_path / "out.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "out.json").read_bytes())
    assert (found["tokens"], found["group_size"], found["banks"], found["queue_depth"]) == (20, 3, 2, 2)
    own, balance = found["limits"]
    assert own["read_bandwidth"] is None and own["factor"] is None and balance["factor"] == 1
    assert len(found["resident"]["runs"]) == 2 and found["resident"]["bytes_read"] == 0
    for limit in found["limits"]:
        assert list(limit["rows"]) == ROWS
        assert [run["bytes_read"] for run in limit["bare_reads"]] == [store.experts_bytes] * 2
        needed = limit["rows"]["on-demand"]["bytes_needed"]
        reading, computing = needed / limit["bandwidth"], found["resident"]["seconds"]
        assert limit["bound_seconds"] == max(reading, computing)
        assert limit["binds"] == ("computing" if computing >= reading else "reading")
        for name, row in limit["rows"].items():
            assert row["ratio"] == pytest.approx(row["seconds"] / limit["bound_seconds"])
            assert row["bytes_read"] == row["bytes_needed"] + row["bytes_speculative"]
            assert row["bytes_needed"] == needed and row["seconds"] == np.median([r["seconds"] for r in row["runs"]])
            assert "early" in name or row["bytes_speculative"] == 0
            for run in row["runs"]:
                assert run["schedule"] == name.partition(",")[0] and run["carry_over"] == ("carried" in name)
                assert run["read_bandwidth"] == (limit["read_bandwidth"] or 0)
    outputs = [
        run["logits_sha256"] for limit in found["limits"] for row in limit["rows"].values() for run in row["runs"]
    ]
    assert set(outputs) == {run["logits_sha256"] for run in found["resident"]["runs"]} and len(set(outputs)) == 1


def test_the_table_labels_declared_limits(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "schedules", str(store.path), "--tokens", "1 2 3", "--rounds", "1", "--factors", "2", *SHAPE]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "3 tokens, G=3 B=2 Q=2" in out and "measured on" in out and "load" in out
    assert out.count("at the disk's own speed") == 1 and out.count("MB/s (declared)") == 1
    assert all(out.count(f"{name:>19} ") == 2 for name in ROWS)


def test_synthetic_models_have_the_sizes_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = ["--hidden", "256", "--ffn", "32", "--layers", "2", "--experts", "6", "--top-k", "3"]
    command = ["bench", "schedules", "--synthetic", *sizes, "--length", "4", "--rounds", "1", "--factors", *SHAPE]
    assert main([*command[:-4], "--folder", "kept", "--json", *SHAPE]) == 0
    (name,) = os.listdir("kept")
    spec = Store(Path("kept") / name).spec
    assert (spec.hidden, spec.ffn, spec.layers, spec.experts, spec.router.top_k) == (256, 32, 2, 6, 3)
    assert (spec.heads, spec.head_dim) == (2, 128)  # as OLMoE's
    assert len(json.loads(capsys.readouterr().out)["limits"]) == 1
    assert main(command) == 0
    assert os.listdir() == ["kept"]


def sample(seconds: float = 1.0, read: int = 0) -> Sample:
    return Sample(seconds, seconds, read, read, 0, 0.0, 0.0, 0, "same", "early", False, 0.0)


@pytest.mark.parametrize(("computing", "binds", "bound"), [(3.0, "reading", 4.0), (5.0, "computing", 5.0)])
def test_the_bound_is_the_longer_of_computing_and_reading(computing: float, binds: str, bound: float) -> None:
    limit = comparison._Limit(1.0, 100.0)
    runs = {(None, "resident"): [sample(computing)], (limit, "bare reads"): [sample(2.0, 200), sample(2.0, 180)]}
    runs |= {(limit, name): [sample(6.0, 380), sample(8.0, 380)] for name in ROWS}
    found = comparison._under(limit, runs)
    assert (found["bandwidth"], found["binds"], found["bound_seconds"]) == (95, binds, bound)
    assert {row["ratio"] for row in found["rows"].values()} == {7 / bound}


def test_rounds_take_the_rows_in_rotating_order() -> None:
    order: list[str] = []

    def row(name: str) -> Callable[[], Sample]:
        def measure() -> Sample:
            order.append(name)
            return sample()

        return measure

    rows = {(None, name): row(name) for name in "abc"}
    found = comparison._interleave(rows, 4)
    assert "".join(order) == "abcbcacababc"
    assert {len(runs) for runs in found.values()} == {4}


def test_schedules_that_disagree_are_no_comparison(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = samples.request, 0

    def other(*arguments: Any, **settings: Any) -> Sample:
        nonlocal calls
        calls += 1
        found = real(*arguments, **settings)
        return found if calls != 3 else Sample(**found.to_json() | {"logits_sha256": "other"})

    monkeypatch.setattr(comparison, "request", other)
    with pytest.raises(EStreamError, match="two schedules gave different logits"):
        comparison.compare(store, np.arange(4, dtype=np.int32), {"group_size": 3, "banks": 2, "queue_depth": 1,
                                                                 "threads": None}, [], 1)  # fmt: skip


@pytest.mark.parametrize(("group_size", "banks", "queue"), [(3, 2, 2), (10, 1, 1), (1, 5, 4), (4, 3, 1)])
def test_bare_reads_read_everything_once_and_verify_it(
    store: Store, tmp_path: Path, group_size: int, banks: int, queue: int
) -> None:
    found = bare_reads(store, group_size, banks, queue, None)
    assert found.bytes_read == store.experts_bytes and found.seconds > 0
    slow = bare_reads(store, group_size, banks, queue, 4 * store.experts_bytes)
    assert slow.seconds > 0.2  # a declared limit holds them too
    path = synthetic_store(tmp_path)
    content = bytearray((path / "experts.bin").read_bytes())
    content[-1000] ^= 1
    (path / "experts.bin").write_bytes(content)
    with pytest.raises(EStreamError, match="wrong checksum"):
        bare_reads(Store(path), group_size, banks, queue, None)


def test_an_interrupt_writes_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "bare_reads", stop)
    Path("out.json").write_text("before")
    assert (
        main(["bench", "schedules", str(store.path), "--length", "4", "--factors", *SHAPE[:0], "-o", "out.json"]) == 130
    )
    assert "stopped: no file was changed" in capsys.readouterr().err
    assert os.listdir() == ["out.json"] and Path("out.json").read_text() == "before"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a store, or --synthetic"),
        (["STORE", "--synthetic"], "give a store, or --synthetic"),
        (["STORE", "--length", "500"], f"more than the model's context of {SPEC.context}"),
        (["STORE", "--prompt", "x"], "has no tokenizer"),
        (["STORE", "-o", "no/where/out.json"], "Cannot write no/where/out.json"),
        (["STORE", "--group-size", "11"], "a group of 11 experts is not between 1 and the layer's 10"),
        (["--synthetic", "--experts", "4", "--top-k", "5"], "--top-k 5 is more than the 4 experts"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(store.path) if part == "STORE" else part for part in arguments]
    assert main(["bench", "schedules", *given]) == 1
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err
    assert os.listdir() == []


@pytest.mark.parametrize("factor", ["0", "-1", "nan", "inf", "1e9", "half"])
def test_a_factor_beyond_sense_is_misuse(factor: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["bench", "schedules", "s", "--factors", factor])
    assert "is not a factor between" in capsys.readouterr().err or factor == "-1"
