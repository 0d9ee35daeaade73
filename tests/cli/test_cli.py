"""The command as a user meets it: figures, JSON, one sentence for every error, and a status."""

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from estream_lab.cli import main, options, routes
from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.kernels import bf16, compiled, int8
from estream_lab.kernels.int8 import reference
from estream_lab.routing import read_routes
from tests.stores import SPEC, synthetic_store
from tests.streaming.test_pack import write_checkpoint

from .conftest import Run

TOKENS = "1,2,3,4,5,6,7,8"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(synthetic_store(tmp_path_factory.mktemp("cli")))


def test_prefill_prints_schedule_lane_arena_and_active_experts(estream: Run, store: str) -> None:
    status, out, _ = estream("prefill", store, "--tokens", TOKENS, "--group-size", "3", "--banks", "2")
    assert status == 0
    for part in ("early: G=3 B=2 Q=2", "host (host-int8)", "measured on", "of 30", "arena", "peak RSS", "storage idle"):
        assert part in out
    assert re.search(
        r"peak RSS +\d+ bytes \(of the \w+\): arena [\d.]+, weights [\d.]+, kv [\d.]+, activations [\d.]+, "
        r"kernels [\d.]+, interpreter [\d.]+, unaccounted -?[\d.]+ MiB\nplanned peak +\d+ bytes\n",
        out,
    )


def test_prefill_json_is_one_object(estream: Run, store: str) -> None:
    status, out, _ = estream("prefill", store, "--tokens", TOKENS, "--json", "--schedule", "on-demand")
    result = json.loads(out)
    assert status == 0
    assert (result["tokens"], result["schedule"], result["lane"]) == (8, "on-demand", "host")


def test_a_memory_budget_decides_the_banks(estream: Run, store: str) -> None:
    status, out, _ = estream("prefill", store, "--tokens", TOKENS, "--group-size", "1", "--memory-budget", "64GiB")
    assert status == 0 and "B=10" in out and f"bytes of a budget of {64 << 30}" in out
    _, out, _ = estream("prefill", store, "--tokens", TOKENS, "--memory-budget", "available", "--json")
    assert json.loads(out)["memory_planned_bytes"] < json.loads(out)["memory_budget_bytes"]
    _, out, _ = estream("prefill", store, "--tokens", TOKENS, "--memory-budget", "1GB", "--banks", "1", "--json")
    assert json.loads(out)["banks"] == 1


def test_a_declared_bandwidth_is_labelled(estream: Run, store: str) -> None:
    _, out, _ = estream("prefill", store, "--tokens", TOKENS, "--read-bandwidth", "5MB/s")
    assert "reads limited to 5 MB/s (declared)" in out


def test_traces_and_report_are_written(estream: Run, store: str, tmp_path: Path) -> None:
    chrome, perfetto, report = tmp_path / "t.json", tmp_path / "t.perfetto-trace", tmp_path / "r.html"
    assert estream("prefill", store, "--tokens", TOKENS, "--trace", str(chrome), "--report", str(report))[0] == 0
    assert estream("prefill", store, "--tokens", TOKENS, "--trace", str(perfetto))[0] == 0
    assert json.loads(chrome.read_text())["traceEvents"]
    assert perfetto.stat().st_size > 1000
    assert "<html" in report.read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("option", ["--trace", "--report"])
def test_a_result_that_cannot_be_written_stops_before_the_run(
    estream: Run, store: str, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr(PrefillEngine, "open", lambda *_, **__: pytest.fail("the run began"))
    assert estream("prefill", store, "--tokens", "1", option, "no/where/t")[0] == 1


def test_routes_of_a_prompt_are_written_and_read_back(estream: Run, store: str, tmp_path: Path) -> None:
    path = tmp_path / "routes.csv"
    status, out, _ = estream("routes", store, "--tokens", TOKENS, "-o", str(path), "--json")
    assert status == 0
    summary = json.loads(out)
    assert summary["layers"]["0"]["routes"] == 16 and summary["experts"] == SPEC.experts
    assert {layer: len(routes) for layer, routes in read_routes(path).items()} == {0: 16, 1: 16, 2: 16}
    status, again, _ = estream("routes", "--input", str(path))
    assert status == 0 and "layer   2" in again


def test_synthetic_routes_are_seeded(estream: Run, tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.jsonl" for i in range(3)]
    for path, seed in zip(paths, ("4", "4", "5"), strict=True):
        assert estream("routes", "--synthetic", "32", "--layers", "2", "--seed", seed, "-o", str(path))[0] == 0
    first, same, other = (path.read_bytes() for path in paths)
    assert first == same != other


def test_doctor_examines_a_store(estream: Run, store: str) -> None:
    status, out, _ = estream("doctor", store, "--json")
    findings = {finding["name"]: finding for finding in json.loads(out)["findings"]}
    assert status == 0 and all(set(f) == {"name", "status", "detail", "remedy"} for f in findings.values())
    assert "all 30 records" in findings["store"]["detail"]
    assert estream("doctor", store + "-gone")[0] == 1


def test_doctor_tries_the_bf16_kernels(estream: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> dict[str, str]:
        return next(f for f in json.loads(estream("doctor", "--json")[1])["findings"] if f["name"] == "bf16 kernels")

    assert found()["status"] == "ok" and found()["detail"] == bf16.description()
    monkeypatch.setattr("estream_lab.kernels.bf16.reference.rounded", lambda x: x)
    assert found()["status"] == "error"


def test_doctor_tries_the_int8_kernels(estream: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> dict[str, str]:
        return next(f for f in json.loads(estream("doctor", "--json")[1])["findings"] if f["name"] == "int8 kernels")

    assert found()["status"] == "ok" and found()["detail"] == int8.description()
    monkeypatch.setattr(
        reference, "quantise", lambda x: (np.zeros(x.shape, np.int8), np.zeros((len(x), 1), np.float32))
    )
    assert found()["status"] == "error"


def test_doctor_tells_that_no_compiled_code_can_be_kept(
    estream: Run, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "UNCACHED", ["_attention"])
    _, out, _ = estream("doctor", store, "--json")
    kernels = next(finding for finding in json.loads(out)["findings"] if finding["name"] == "kernels")
    assert kernels["status"] == "warning" and "NUMBA_CACHE_DIR" in kernels["remedy"]


ERRORS: dict[str, tuple[list[str], str]] = {
    "no store": (["prefill", "nowhere.estream", "--tokens", "1"], "nowhere.estream is not a store"),
    "empty prompt": (["prefill", "STORE", "--tokens", ""], "the prompt is empty"),
    "words for ids": (["prefill", "STORE", "--tokens", "1,b"], "--tokens takes whole numbers separated by commas"),
    "outside the vocabulary": (["prefill", "STORE", "--tokens", "500"], "token 500 at position 0 is outside"),
    "a file for a store": (["prefill", "/dev/null", "--tokens", "1"], "is not a store: it is a file"),
    "ids beyond 64 bits": (["prefill", "STORE", "--tokens", "9" * 30], "--tokens holds a number that no token has"),
    "a folder that is a file": (
        ["bench", "scale", "--folder", "/dev/null/x"],
        "can't work in /dev/null/x: Not a directory; choose another --folder",
    ),
    "more routes than experts": (["bench", "scale", "--experts", "16", "2"], "--top-k 4 is more than the 2 experts"),
    "a bottomless model": (["bench", "scale", "--layers", "1000000000"], "1000 at most"),
    "a prompt beyond all contexts": (["bench", "scale", "--length", "5000"], "4096 at most"),
    "groups above experts": (["bench", "scale", "--group-size", "17"], "--group-size 17 is more than the 16 experts"),
    "text without a tokenizer": (["prefill", "STORE", "--prompt", "hi"], "has no tokenizer: give --tokens"),
    "small budget": (
        ["prefill", "STORE", "--tokens", "1", "--memory-budget", "3MiB"],
        "a memory budget of 3.0 MiB is too small for 1 token in groups of 8 experts: the least that works is ",
    ),
    "no budget at all": (["prefill", "STORE", "--tokens", "1", "--memory-budget", "0"], "must be at least 1, not 0"),
    "small arena": (["prefill", "STORE", "--tokens", "1", "--arena", "4KiB", "--group-size", "2"], "smaller than one"),
    "no prompt for routes": (["routes", "STORE"], "give the prompt whose routes you want"),
    "two origins of routes": (["routes", "STORE", "--synthetic", "3"], "give a store with a prompt, or"),
    "a negative seed": (["routes", "--synthetic", "3", "--seed", "-1"], "a seed of 0 or more"),
    "an infinite alpha": (["routes", "--synthetic", "3", "--alpha", "inf"], "a positive alpha"),
    "missing route file": (["routes", "--input", "none.csv"], "none.csv"),
    "no checkpoint": (["pack", "nowhere", "-o", "x.estream"], "nowhere is no folder"),
    "bad parameter": (["notebooks", "run", "x.ipynb", "-p", "fast"], "not a parameter such as"),
    "no notebook": (["notebooks", "run", "x.ipynb"], "x.ipynb"),
    "one choice": (["score", "STORE", "--prompt", "a", "--choice", "b"], "no tokenizer"),
    "trace in no folder": (["prefill", "STORE", "--tokens", "1", "--trace", "no/where/t.json"], "no/where/t.json"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_are_one_sentence_and_a_status(
    estream: Run, store: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message = ERRORS[kind]
    status, out, err = estream(*(store if part == "STORE" else part for part in arguments))
    assert status == 1 and message in err and out == ""
    assert len(err.strip().splitlines()) == 1 and "Traceback" not in err
    status, out, _ = estream(*(store if part == "STORE" else part for part in arguments), "--json")
    assert status == 1 and message in json.loads(out)["error"]


@pytest.mark.parametrize(
    "arguments",
    [["prefill", "s", "--tokens", "1", "--banks", "0"], ["prefill", "s", "--tokens", "1", "--arena", "3 apples"],
     ["prefill", "s", "--tokens", "1", "--memory-budget", "plenty"],
     ["prefill", "s", "--tokens", "1", "--schedule", "eager"], ["prefill", "s"], ["fly"], []],
)  # fmt: skip
def test_misused_options_exit_with_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: estream" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000, "9000000000GiB"])
def test_a_size_beyond_all_memory_is_misuse(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["prefill", "s", "--tokens", "1", "--arena", text])
    assert "argument --arena: " in capsys.readouterr().err


def test_a_number_beyond_all_meaning_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["routes", "--synthetic", "1" + "0" * 30])
    assert "argument --synthetic: " in capsys.readouterr().err


def test_a_route_file_without_routes_is_refused(estream: Run, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("layer,token,k,expert,weight\n")
    assert estream("routes", "--input", str(tmp_path / "r.csv"))[::2] == (
        1,
        f"estream: {tmp_path}/r.csv holds no routes: give the file of a run\n",
    )


def test_misuse_is_one_json_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["prefill", "s", "--tokens", "1", "--banks", "0", "--json"])
    captured = capsys.readouterr()
    assert "'0' is not a whole number of at least 1" in json.loads(captured.out)["error"]
    assert "usage: estream prefill" in captured.err


def test_memory_that_runs_out_is_one_sentence(estream: Run, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(*_: object, **__: object) -> None:
        raise MemoryError("8 EiB")

    monkeypatch.setattr(PrefillEngine, "prefill", hungry)
    status, out, err = estream("prefill", store, "--tokens", "1", "--json")
    assert status == 1 and err == "estream: not enough memory (8 EiB): choose smaller numbers\n"
    assert "not enough memory" in json.loads(out)["error"]


def test_a_prompt_file_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_LARGEST_PROMPT", 1 << 20)
    with pytest.raises(EStreamError, match="/dev/zero is larger than 1 MiB"):
        options.read_text(Path("/dev/zero"))


@pytest.mark.parametrize("arguments", [["routes", "--synthetic", "8", "--json"], ["routes", "--json"]])
def test_a_full_output_leaves_one_sentence(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and err.startswith("estream: ")


def test_closed_streams_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["routes", "--synthetic", "8"]) == 0
    assert main(["routes", "--json"]) == 1
    sys.stdout.close()
    sys.stderr.close()


def test_characters_that_the_output_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding="ascii"))
    monkeypatch.setattr(routes, "_routes", lambda _: ({}, 1, "é"))
    assert main(["routes"]) == 0
    assert content.getvalue() == b"\\xe9 routes, 1 experts a layer\n"


def test_an_interrupt_while_loading_is_one_sentence() -> None:
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'estream_lab.streaming': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from estream_lab.cli import main\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (process.returncode, process.stderr) == (130, "estream: stopped: no file was changed\n")


def test_debug_shows_the_traceback(estream: Run, store: str) -> None:
    _, _, err = estream("prefill", store, "--tokens", "", "--debug")
    assert "Traceback" in err and "the prompt is empty" in err


def test_a_reader_that_goes_away_is_no_fault() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "estream_lab", "routes", "--synthetic", "8"]
    process = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    os.close(writer)
    assert (process.returncode, process.stderr) == (1, "")


def test_interrupting_a_pack_says_what_is_kept(tmp_path: Path) -> None:
    """A real process and a real SIGINT, in the middle of packing a checkpoint that it can't finish in time."""
    code = (
        "import os, signal, sys\n"
        "from estream_lab.streaming import pack as module\n"
        "real, calls = module.pack_record, [0]\n"
        "def slow(*a):\n"
        "    calls[0] += 1\n"
        "    if calls[0] == 12: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(*a)\n"
        "module.pack_record = slow\n"
        "from estream_lab.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    command = [sys.executable, "-c", code, "pack", str(checkpoint), "-o", str(tmp_path / "m.estream")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ)
    assert process.returncode == 130 == 128 + signal.SIGINT
    assert "whole layers are kept in" in process.stderr and "Traceback" not in process.stderr
    assert (tmp_path / "m.estream.partial" / "pack.json").exists()
    assert not (tmp_path / "m.estream").exists()


def test_prefill_under_the_devices_arithmetic(estream: Run, store: str, tmp_path: Path) -> None:
    steps = tmp_path / "steps.json"
    given = ("prefill", store, "--tokens", TOKENS, "--executor", "exact")
    status, out, _ = estream(*given, "--profile", "hmx_v73_g4", "--steps", str(steps))
    assert status == 0 and "exact (hmx_v73_g4)" in out and str(steps) in out
    units = {event["name"] for event in json.loads(steps.read_text())["traceEvents"] if event.get("ph") == "X"}
    assert {"gather", "fetch gate and up", "decode down", "matmul gate and up", "swiglu gate and up"} <= units
    hashes = {
        json.loads(estream(*given, "--json", *more)[1])["logits_sha256"]
        for more in ((), ("--profile", "hmx_v75_g8"), ("--vtcm", "300KiB"))
    }
    assert len(hashes) == 1
