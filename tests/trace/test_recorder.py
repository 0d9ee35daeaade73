import threading

import numpy as np
import pytest

from estream_lab.trace import Recorder


def test_span_times_its_body_with_the_clock_that_now_reads() -> None:
    recorder = Recorder("host")
    before = recorder.now()
    with recorder.span("dense", "attention", layer=3):
        inside = recorder.now()
    after = recorder.now()
    (span,) = recorder.trace({}).spans
    assert before <= span.start_ns <= inside <= span.end_ns <= after
    assert (span.lane, span.clock, span.unit, span.name, span.layer) == ("host", "host", "dense", "attention", 3)


def test_a_body_that_raises_is_recorded_and_raises() -> None:
    recorder = Recorder("host")
    with pytest.raises(KeyError), recorder.span("dense", "attention"):
        raise KeyError
    assert len(recorder.trace({}).spans) == 1


def test_numpy_integers_become_python_integers() -> None:
    recorder = Recorder("host", request=4)
    recorder.add("storage", "read", np.int64(3), np.int64(9), group=np.int32(2), bytes=np.uint64(8))  # type: ignore[arg-type]
    (span,) = recorder.trace({}).spans
    assert (span.start_ns, span.duration_ns, span.group, span.bytes, span.request) == (3, 6, 2, 8, 4)
    assert type(span.bytes) is int
    assert type(span.start_ns) is int


def test_no_span_is_lost_between_threads() -> None:
    recorder = Recorder("host")
    gate = threading.Barrier(4)

    def work(thread: int) -> None:
        gate.wait()
        for i in range(500):
            recorder.add("storage", "read", i, i + 1, bank=thread)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans = recorder.trace({}).spans
    assert sorted((s.bank, s.start_ns) for s in spans) == [(b, i) for b in range(4) for i in range(500)]  # type: ignore[type-var]


def test_the_lane_is_part_of_the_provenance() -> None:
    assert Recorder("exact").trace({"machine": "m"}).provenance == {"lane": "exact", "machine": "m"}


def test_a_foreign_clock_cannot_time_a_block_and_an_end_not_precede_its_start() -> None:
    recorder = Recorder("simulator", clock="simulated")
    with pytest.raises(ValueError, match="simulated"), recorder.span("dense", "attention"):
        pass
    with pytest.raises(ValueError, match="before it starts"):
        recorder.add("dense", "attention", 5, 4)
