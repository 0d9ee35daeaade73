"""A peer's process: what it may do wrong is said in one sentence, and it never outlives the session."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from estream_lab.bench import session as session_module
from estream_lab.bench.session import PeerFailed, Session, Unsupported

REPLY = "import sys\nfor line in sys.stdin: print({!r}, flush=True)"


def session(program: str, deadline: float = 60.0) -> Session:
    return Session("fake", [sys.executable, "-c", program], deadline=deadline)


@pytest.fixture(name="echo")
def _echo() -> Iterator[Session]:
    program = "import json, sys\nfor line in sys.stdin: print(json.dumps({'ok': json.loads(line)}), flush=True)"
    with session(program) as peer:
        yield peer


def test_requests_are_answered_one_by_one(echo: Session) -> None:
    assert echo.ask("run", row="a") == {"do": "run", "row": "a"}
    assert echo.ask("weights", into="ü\n") == {"do": "weights", "into": "ü\n"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("what?", "answered 'what\\?', which is no answer: run `make peers`"),
        ("[1]", "which is no answer"),
        ('{"maybe": 1}', "which is no answer"),
        ('{"ok": 1}', "which is no answer"),
        ('{"error": "ValueError: odd"}', "failed to run: ValueError: odd; leave it out with --peer"),
    ],
)
def test_an_answer_that_is_none_is_told(answer: str, told: str) -> None:
    with session(REPLY.format(answer)) as peer, pytest.raises(PeerFailed, match=f"the peer fake .*{told}"):
        peer.ask("run")


@pytest.mark.parametrize(("do", "key"), [("prepare", "arithmetic"), ("run", "seconds")])
def test_an_answer_that_lacks_something_is_told(do: str, key: str) -> None:
    with session(REPLY.format('{"ok": {}}')) as peer:
        found = peer.ask(do)
        with pytest.raises(PeerFailed, match=f"answered to {do} without '{key}'"), peer.answer_of(do):
            found[key]


def test_a_peer_that_closes_its_output_and_goes_on_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "LAST_SECONDS", 0.1)
    program = "import os, time\ninput()\nos.close(1)\ntime.sleep(600)"
    with session(program) as peer, pytest.raises(PeerFailed, match=r"the peer fake died \(signal 9\)"):
        peer.ask("run")


def test_a_line_without_end_is_not_waited_for() -> None:
    with session("while True: print('x' * 65536, end='')") as peer, pytest.raises(PeerFailed, match="no answer"):
        peer.ask("run")


def test_an_unsupported_row_is_no_failure() -> None:
    with session(REPLY.format('{"unsupported": "no such thing here"}')) as peer:
        with pytest.raises(Unsupported, match="no such thing here"):
            peer.ask("prepare")
        with pytest.raises(Unsupported):  # and the session goes on
            peer.ask("prepare")


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import sys; input(); sys.stderr.write('one\\nout of luck\\n'); sys.exit(3)", "status 3.*words: out of luck"),
        ("import os; input(); print('{\"ok\"', end='', flush=True); os.kill(os.getpid(), 9)", "signal 9"),
        ("", "status 0"),
    ],
)
def test_a_peer_that_dies_is_told_with_its_last_words(program: str, told: str) -> None:
    with session(program) as peer, pytest.raises(PeerFailed, match=f"the peer fake died .{told}"):
        for _ in range(100):  # the first request may be written before the end is seen
            peer.ask("run")


def test_a_peer_that_hangs_meets_the_deadline_and_is_killed() -> None:
    with session("import time; input(); print('{', end='', flush=True); time.sleep(600)", deadline=0.5) as peer:
        start = time.monotonic()
        with pytest.raises(PeerFailed, match=r"did not run within 0\.5 s"):
            peer.ask("run")
        assert time.monotonic() - start >= 0.5
        process = peer._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_peer_that_trickles_meets_the_same_deadline() -> None:
    trickle = "import time\nwhile True: print('x', end='', flush=True); time.sleep(0.05)"
    with session(trickle, deadline=1.0) as peer, pytest.raises(PeerFailed, match="did not run within 1 s"):
        peer.ask("run")


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(PeerFailed, match="can't be started .*make peers"):
        Session("fake", ["/nowhere/python"])


def test_the_environment_is_the_one_that_is_given() -> None:
    program = "import json, os\ninput()\nprint(json.dumps({'ok': {k: os.environ.get(k) for k in ('HOME', 'ADDED')}}))"
    with Session("fake", [sys.executable, "-c", program], environment={"ADDED": "yes"}) as peer:
        assert peer.ask("offer") == {"HOME": None, "ADDED": "yes"}


def test_a_peer_is_stopped_while_it_is_not_asked(echo: Session) -> None:
    """Its threads may spin: they take no time from others' turns."""
    on_linux = sys.platform == "linux"
    assert session_module.STOPS is on_linux
    assert ("stopped" if on_linux else "left to sleep") == session_module.BETWEEN_TURNS
    process, until = psutil.Process(echo.process), time.monotonic() + 30
    for _ in range(2):
        echo.ask("run")  # goes on, and is stopped again
        while on_linux and process.status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < until


ORPHAN = """
import subprocess, sys
from estream_lab.bench.session import Session
peer = Session("fake", [sys.executable, "tests/bench/numpy_peer.py"])
peer.ask("offer")
print(peer.process, flush=True)
input()
"""


def test_a_stopped_peer_ends_with_a_bench_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as bench:
        assert bench.stdout is not None
        peer = psutil.Process(int(bench.stdout.readline()))
        bench.kill()
        psutil.wait_procs([peer], timeout=30)
    assert not peer.is_running() or peer.status() == psutil.STATUS_ZOMBIE
