"""^C and SIGTERM at every step of every long command: one sentence, 130 or 143, whole files, and the next run works.

It all runs in this process: the step is patched to send the signal to itself, just before or just after what it does,
from whichever thread it runs on. `tests/full/test_signals.py` sends signals to real processes.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from estream_lab import doctor
from estream_lab.cgroup import GroupRun
from estream_lab.cli import main, prefill, score, signals
from estream_lab.cli.bench import scale
from estream_lab.cli.signals import Stops
from estream_lab.engine import prefill as engine_prefill
from estream_lab.evaluate import ranking
from estream_lab.experts import Arena
from estream_lab.experts.graph import ExpertGraph
from estream_lab.kernels.host import dense
from estream_lab.models.layers import Decoder
from estream_lab.models.shard import Shard
from estream_lab.models.source import ExpertSource
from estream_lab.models.tokenizer import Tokenizer
from estream_lab.routing import Router
from estream_lab.streaming import Store, files, loader, pack, unfinished
from estream_lab.streaming import store as store_module
from estream_lab.trace import atomic
from tests.faults.matrix import no_hang
from tests.stores import SPEC, give_tokenizer, synthetic_store
from tests.streaming.test_pack import write_checkpoint

TOKENS = " ".join(map(str, range(40, 64)))
SIGNALS = [signal.SIGINT, signal.SIGTERM]
NONE = "no file was changed"


@dataclass(frozen=True)
class Step:
    """A function that a command calls, and which of its calls the signal comes with."""

    name: str
    owner: Any
    function: str
    nth: int = 1


PREFILL = [
    Step("the manifest is read", store_module, "read_regular"),
    Step("the store is opened", Store, "__init__"),
    Step("kernels are loaded", engine_prefill, "open_kernels"),
    Step("a kernel runs", dense, "run_workers", 3),
    Step("dense weights are read", Shard, "read", 7),
    Step("the records are opened", loader, "open_direct"),
    Step("tokens are embedded", Decoder, "embed"),
    Step("attention", Decoder, "attend", 2),
    Step("the router", Router, "choose", 2),
    Step("a group is waited for", files.DirectFile, "read_into", 5),
    Step("a record is verified", loader.xxhash, "xxh3_64_intdigest", 9),
    Step("experts run", ExpertGraph, "invoke", 4),
    Step("a bank is given up", Arena, "release", 5),
    Step("the head", Decoder, "logits"),
    Step("the result is put together", engine_prefill, "measured"),
    Step("the trace is flushed", atomic.os, "fsync"),
    Step("the trace gets its name", atomic.os, "replace"),
]
WRITING = [
    Step("the report is flushed", atomic.os, "fsync", 2),
    Step("the report gets its name", atomic.os, "replace", 2),
    Step("the summary", prefill, "summary"),
]
PACK = [
    Step("the checkpoint is opened", ExpertSource, "open"),
    Step("an expert is read", ExpertSource, "expert", 12),
    Step("an expert is quantised", pack, "pack_record", 12),
    Step("a record is summed up", pack.xxhash, "xxh3_64_hexdigest", 12),
    Step("a layer is flushed", pack.os, "fsync", 3),
    Step("the journal gets its name", pack.os, "replace", 2),
    Step("dense weights are written", pack, "write_dense"),
    Step("the manifest is written", pack.os, "replace", SPEC.layers + 1),
    Step("the folder gets its name", pack.os, "rename"),
    Step("the manifest gets its name", pack.os, "rename", 2),
    Step("the journal goes", pack.Path, "unlink"),
]


@contextmanager
def signalled(step: Step, number: int, after: bool) -> Iterator[list[int]]:
    """The signal comes just before, or just after, the step's call."""
    real, calls, sent = getattr(step.owner, step.function), 0, list[int]()
    raw = vars(step.owner).get(step.function)

    def call(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        hit = calls == step.nth
        if hit and not after:
            sent.append(number)
            os.kill(os.getpid(), number)
        value = real(*arguments, **more)
        if hit and after:
            sent.append(number)
            os.kill(os.getpid(), number)
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step.owner, step.function, staticmethod(call) if isinstance(raw, classmethod) else call)
        yield sent


def cases(steps: list[Step]) -> list[Any]:
    """Each step with a signal before and one after it; the two signals take turns."""
    return [
        pytest.param(step, number, after, id=f"{number.name}-{'after' if after else 'before'}-{step.name}")
        for place, step in enumerate(steps)
        for after, number in zip((False, True), SIGNALS if place % 2 else reversed(SIGNALS), strict=True)
    ]


def stopped(arguments: list[str], step: Step, number: int, after: bool, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that the signal comes to; returns what its one sentence says is kept."""
    capsys.readouterr()
    with signalled(step, number, after) as sent, no_hang(step.name):
        status = main(arguments)
    assert sent == [number], "the step was never reached"
    out, err = capsys.readouterr()
    lines = [line for line in err.replace("\r", "\n").splitlines() if line.strip() and "|" not in line]  # a bar is none
    lines = [line for line in lines if not line.startswith("files of this run lie in ")]  # said before the signal
    assert status == 128 + number, (out, err)
    assert len(lines) == 1 and lines[0].startswith("estream: stopped: ") and not out, (out, err)
    return lines[0].removeprefix("estream: stopped: ")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(synthetic_store(tmp_path_factory.mktemp("signals")))


@pytest.fixture(scope="module")
def logits(store: str) -> str:
    with engine_prefill.PrefillEngine.open(store, resident=True) as engine:
        return engine.prefill([int(token) for token in TOKENS.split()]).logits_sha256


@pytest.mark.parametrize(("step", "number", "after"), cases(PREFILL + WRITING))
def test_a_stopped_prefill_leaves_whole_files_and_the_next_one_works(
    store: str, logits: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], step: Step, number: int, after: bool
) -> None:
    trace, report = tmp_path / "t.json", tmp_path / "r.html"
    command = ["prefill", store, "--tokens", TOKENS, "--group-size", "3", "--banks", "2"]
    outputs = ["--trace", str(trace), "--report", str(report)]  # a report takes longer than all the rest
    kept = stopped(command + (outputs if step in WRITING else outputs[:2]), step, number, after, capsys)
    for path in (trace, report):
        assert path.exists() == (str(path) in kept)
    if trace.exists():
        assert json.loads(trace.read_text())["traceEvents"]
    if report.exists():
        assert report.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert set(os.listdir(tmp_path)) <= {"t.json", "r.html"}  # nothing unfinished is left
    assert not [thread for thread in threading.enumerate() if thread.name == "estream-request"]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["logits_sha256"] == logits


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("signals") / "checkpoint")


@pytest.fixture(scope="module")
def packed(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    output = tmp_path_factory.mktemp("packed") / "m.estream"
    pack.pack(checkpoint, output, progress=False)
    return content(output)


def content(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(store.iterdir())}


@pytest.mark.parametrize(("step", "number", "after"), cases(PACK))
def test_a_stopped_pack_keeps_what_is_whole_and_the_next_one_goes_on(
    checkpoint: Path, packed: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    step: Step, number: int, after: bool,
) -> None:  # fmt: skip
    output = tmp_path / "m.estream"
    command = ["pack", str(checkpoint), "-o", str(output)]
    kept = stopped(command, step, number, after, capsys)
    if (output / "manifest.json").exists():
        assert kept == f"{output} is whole"
        assert {name: data for name, data in content(output).items() if name != unfinished.JOURNAL} == packed
        return
    if kept == NONE:
        assert os.listdir(tmp_path) == []
    else:
        (there,) = os.listdir(tmp_path)
        assert kept == f"whole layers are kept in {tmp_path / there}, run the same command again to go on"
    assert main(command) == 0
    assert content(output) == packed and os.listdir(tmp_path) == ["m.estream"]


SCORE = [
    Step("the tokenizer is used", Tokenizer, "encode", 2),
    Step("the second request's attention", Decoder, "attend", SPEC.layers + 1),
    Step("a read of the second request", files.DirectFile, "read_into", 15),
    Step("a choice is scored", ranking, "ChoiceScore"),
    Step("the ranking", score, "rank_choices"),
]


@pytest.mark.parametrize(("step", "number", "after"), cases(SCORE))
def test_a_stopped_score_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], step: Step, number: int, after: bool
) -> None:
    store = give_tokenizer(synthetic_store(tmp_path))
    command = ["score", str(store), "--prompt", "a prompt ", "--choice", "of this", "--choice", "of that"]
    command += ["--group-size", "3", "--banks", "2"]
    assert stopped(command, step, number, after, capsys) == NONE
    assert main(command) == 0


DOCTOR = [
    Step("direct I/O is tried", doctor, "open_direct"),
    Step("a record is read", files.DirectFile, "read_into", 7),
    Step("dense weights are read", Shard, "read", 3),
]


@pytest.mark.parametrize(("step", "number", "after"), cases(DOCTOR))
def test_a_stopped_doctor_says_so(
    store: str, capsys: pytest.CaptureFixture[str], step: Step, number: int, after: bool
) -> None:
    assert stopped(["doctor", store], step, number, after, capsys) == NONE


BENCH = [
    Step("the store is packed", pack, "pack_record", 5),
    Step("the first engine opens", engine_prefill, "open_kernels"),
    Step("the resident run", Decoder, "attend", 2),
    Step("a bare read", loader.Loader, "submit", 20),
    Step("a read of a run", files.DirectFile, "read_into", 40),
]


@pytest.mark.parametrize(("step", "number", "after"), cases(BENCH))
def test_a_stopped_bench_leaves_no_folder_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, step: Step, number: int,
    after: bool,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shape = "--hidden 64 --ffn 32 --layers 2 --experts 6 --top-k 2 --length 8 --group-size 2 --banks 2 --rounds 1"
    command = ["bench", "schedules", "--synthetic", *shape.split(), "-o", "out.json"]
    assert stopped(command, step, number, after, capsys) == NONE
    assert os.listdir(tmp_path) == ["cache"] and os.listdir(tmp_path / "cache" / "estream-lab") == []


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_stopped_bench_of_memory_keeps_the_finished_stores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int, nth: int
) -> None:
    monkeypatch.setattr(scale, "run_in_group", lambda *_: GroupRun(0, "{}", "", 0))  # the signal comes with a call
    shape = "--hidden 64 --ffn 32 --layers 2 --experts 6 8 --top-k 2 --length 8 --group-size 2 --banks 2"
    folder = tmp_path / "kept"
    command = ["bench", "scale", *shape.split(), "--folder", str(folder)]
    kept = stopped(command, Step("a run in its group", scale, "run_in_group", nth), number, nth > 1, capsys)
    assert kept == f"finished files are kept in {folder}"
    assert [Store(path).spec.experts for path in sorted(folder.glob("*"))] == ([] if nth == 1 else [6, 8])


def test_routes_that_are_written_already_are_said_to_be_there(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "routes.csv"
    command = ["routes", store, "--tokens", "1 2 3", "-o", str(path)]
    for after in (False, True):
        step = Step("the file gets its name", atomic.os, "replace")
        assert stopped(command, step, signal.SIGTERM, after, capsys) == (f"{path} is whole" if after else NONE)


def test_only_the_command_line_takes_signals_and_gives_them_back(store: str) -> None:
    handlers = [signal.getsignal(number) for number in SIGNALS]
    assert signal.SIG_DFL in handlers  # importing the library, and running an engine, changed none
    main(["routes", "--synthetic", "8"])
    assert [signal.getsignal(number) for number in SIGNALS] == handlers


def test_signals_that_the_program_was_told_to_ignore_stay_ignored() -> None:
    """A shell starts what runs in the background with ^C ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stops() as stops:
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN and stops.number == 0
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            assert (stops.number, stops.status) == (signal.SIGTERM, 143)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_last_resort_lets_a_sentence_be_finished_that_is_being_said(monkeypatch: pytest.MonkeyPatch) -> None:
    stops, telling, go, said = Stops(last_resort=True), threading.Event(), threading.Event(), list[str]()
    ended: list[tuple[int, list[str]]] = []

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            go.set()
            return super().wait(timeout)

    def tell(kept: str) -> None:
        telling.set()
        assert go.wait(60)
        said.append(kept)

    monkeypatch.setattr(signals, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(signals, "TELL_SECONDS", 60.0)
    monkeypatch.setattr(signals.os, "_exit", lambda status: ended.append((status, list(said))))
    stops.tell, stops._said, stops._before = tell, Watched(), {signal.SIGTERM: signal.SIG_DFL}
    saying = threading.Thread(target=stops.say, args=("all of it",))
    saying.start()
    assert telling.wait(60)
    reader, writer = os.pipe()
    os.write(writer, bytes([signal.SIGTERM]))
    stops._end(reader)
    go.set()
    saying.join(60)
    os.close(reader)
    os.close(writer)
    assert ended == [(143, ["all of it"])]


def test_a_process_that_was_stopped_hears_no_more_signals_on_its_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next ^C kills Python while it closes, and the status isn't the one that was promised."""
    monkeypatch.setattr(Stops, "_watch", lambda stops: None)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        with Stops(last_resort=True):
            pass
        assert {number: signal.getsignal(number) for number in SIGNALS} == before
        with pytest.raises(KeyboardInterrupt), Stops(last_resort=True):
            signal.raise_signal(signal.SIGTERM)
        assert [signal.getsignal(number) for number in SIGNALS] == [signal.SIG_IGN] * 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_only_the_exception_of_a_stop_is_kept_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other that Python can't raise is printed as ever."""
    printed: list[type[BaseException]] = []
    stops = Stops(last_resort=True)
    monkeypatch.setattr(stops, "_hook", lambda lost: printed.append(lost.exc_type))

    def lose(error: type[BaseException]) -> None:
        class Swallow:
            def __del__(self) -> None:
                raise error

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "unraisablehook", stops._lost)
            Swallow()

    lose(ValueError)
    lose(KeyboardInterrupt)
    stops._number = signal.SIGINT
    lose(KeyboardInterrupt)
    lose(ValueError)
    assert printed == [ValueError, KeyboardInterrupt, ValueError]


def test_elsewhere_than_in_the_main_thread_commands_run_without_handlers(store: str) -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(main(["routes", "--synthetic", "8"])))
    thread.start()
    thread.join()
    assert found == [0]


def test_an_error_on_the_way_out_is_no_other_error(
    store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a stop breaks is told as a stop."""

    def broken(engine: engine_prefill.PrefillEngine) -> None:
        raise OSError("broken while stopping")

    monkeypatch.setattr(engine_prefill.PrefillEngine, "close", broken)
    step = Step("attention", Decoder, "attend")
    assert stopped(["prefill", store, "--tokens", "1"], step, signal.SIGTERM, False, capsys) == NONE


def test_a_stop_is_told_as_json_too(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with signalled(Step("attention", Decoder, "attend"), signal.SIGTERM, False):
        assert main(["prefill", store, "--tokens", "1", "--json"]) == 143
    assert json.loads(capsys.readouterr().out) == {"error": f"stopped: {NONE}"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_the_streams_are_opened_is_told(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Opening them flushes them, which may take as long as a reader likes."""
    monkeypatch.setattr(sys.modules[main.__module__], "_open_streams", lambda: signal.raise_signal(number))
    assert main(["doctor"]) == 128 + number
    assert capsys.readouterr().err == "estream: stopped: no file was changed\n"
