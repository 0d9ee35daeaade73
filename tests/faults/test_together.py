"""Requests in turn and engines at once on one store: what a request gives never depends on what else runs."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.kernels import host
from estream_lab.streaming import files as files_module
from estream_lab.streaming.files import DirectFile
from tests.faults.matrix import GROUP, HANG_SECONDS, LONG, SCHEDULES, Reference, no_hang

OTHER = tuple(reversed(LONG))


@pytest.fixture(scope="module")
def expected(reference: Reference) -> dict[tuple[int, ...], bytes]:
    with PrefillEngine.open(reference.store, resident=True, group_size=GROUP) as engine:
        return {prompt: engine.prefill(prompt, positions="all").output.tobytes() for prompt in (LONG, OTHER, LONG[:5])}


def test_requests_in_turn_do_not_see_each_other(reference: Reference, expected: dict[tuple[int, ...], bytes]) -> None:
    with PrefillEngine.open(reference.store, group_size=GROUP, banks=2, poison=True) as engine:
        for prompt in (LONG, LONG[:5], OTHER, LONG, OTHER, LONG[:5]):
            assert engine.prefill(prompt, positions="all").output.tobytes() == expected[prompt]


ENGINES: list[dict[str, Any]] = [
    {"schedule": "early", "group_size": 3, "banks": 2, "threads": 1},
    {"schedule": "early", "carry_over": True, "group_size": 2, "banks": 3, "queue_depth": 3, "threads": 2},
    {"schedule": "after-routing", "group_size": 1, "banks": 10, "threads": 2},
    {"schedule": "on-demand", "group_size": 10, "banks": 1, "threads": 1},
    {"resident": True, "group_size": 5, "threads": 2},
]


def run_at_once(reference: Reference, settings: list[dict[str, Any]], rounds: int) -> list[list[tuple[bytes, int]]]:
    """The outputs, and the threads that results report, of engines that start together on threads of their own."""
    together, outputs = threading.Barrier(len(settings), timeout=60), [list[tuple[bytes, int]]() for _ in settings]

    def run(number: int) -> None:
        prompt = (LONG, OTHER)[number % 2]
        with PrefillEngine.open(reference.store, poison=True, **settings[number]) as engine:
            together.wait()
            for _ in range(rounds):
                result = engine.prefill(prompt, positions="all")
                outputs[number].append((result.output.tobytes(), result.threads))

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(settings))]
    with no_hang("engines at once"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return outputs


def test_engines_at_once_in_one_process_give_their_own_results(
    reference: Reference, expected: dict[tuple[int, ...], bytes]
) -> None:
    """Of different schedules, arenas and thread counts; each reports the threads that it was asked for."""
    settings = [engine | {"threads": min(engine["threads"], host.thread_limit())} for engine in ENGINES]
    outputs = run_at_once(reference, settings, rounds=4)
    for number, found in enumerate(outputs):
        assert found == [(expected[(LONG, OTHER)[number % 2]], settings[number]["threads"])] * 4


def test_the_same_schedule_twice_at_once(reference: Reference, expected: dict[tuple[int, ...], bytes]) -> None:
    for schedule in SCHEDULES.values():
        outputs = run_at_once(reference, [schedule | {"group_size": GROUP, "banks": 2}] * 2, rounds=2)
        assert [[output for output, _ in found] for found in outputs] == [[expected[LONG]] * 2, [expected[OTHER]] * 2]


def test_an_engine_whose_disk_hangs_does_not_hold_up_another(
    reference: Reference, expected: dict[tuple[int, ...], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels run one at a time in a process, but nobody holds that place while waiting for a read."""
    real, hung, go, ours = files_module.os.preadv, threading.Event(), threading.Event(), set[int]()

    def hang(fd: int, *rest: Any) -> int:
        if fd in ours:
            hung.set()
            assert go.wait(60)
        return real(fd, *rest)

    first = PrefillEngine.open(reference.store, group_size=GROUP, banks=2)
    first.prepare(len(LONG), outputs=len(LONG))
    ours.add(first._holdings._room.lane._loader._file.fd)  # type: ignore[union-attr]
    monkeypatch.setattr(files_module.os, "preadv", hang)
    found: list[bytes] = []

    def wait() -> None:
        found.append(first.prefill(LONG, positions="all").output.tobytes())

    waiting = threading.Thread(target=wait, daemon=True)
    with no_hang("an engine beside a hung one"):
        waiting.start()
        assert hung.wait(60)
        with PrefillEngine.open(reference.store, group_size=GROUP, banks=2) as second:
            assert second.prefill(OTHER, positions="all").output.tobytes() == expected[OTHER]
        assert not found
        go.set()
        waiting.join()
    first.close()
    assert found == [expected[LONG]]


def test_an_engine_that_fails_again_and_again_leaves_another_alone(
    reference: Reference, expected: dict[tuple[int, ...], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both read the same files and use the same kernel threads."""
    link = tmp_path / "link.estream"
    link.symlink_to(reference.store)
    real = DirectFile.read_into

    def fail(self: DirectFile, views: list[memoryview], offset: int) -> int:
        if self.path.is_relative_to(link) and offset:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(self, views, offset)

    monkeypatch.setattr(DirectFile, "read_into", fail)
    stop, sentences = threading.Event(), list[str]()

    def failing() -> None:
        with PrefillEngine.open(link, group_size=GROUP, banks=2) as engine:
            while not stop.is_set():
                with pytest.raises(EStreamError) as caught:
                    engine.prefill(LONG)
                sentences.append(str(caught.value))

    other = threading.Thread(target=failing, daemon=True)
    with no_hang("an engine beside a failing one"):
        other.start()
        try:
            with PrefillEngine.open(reference.store, group_size=GROUP, banks=2, poison=True) as engine:
                found = [engine.prefill(LONG, positions="all").output.tobytes() for _ in range(6)]
        finally:
            stop.set()
            other.join(HANG_SECONDS)
    assert found == [expected[LONG]] * 6
    assert sentences and all("Input/output error" in sentence for sentence in sentences)
