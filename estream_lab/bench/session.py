"""A peer's process, driven by one JSON line a request and one a answer over pipes."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from estream_lab.errors import EStreamError

DEADLINE_SECONDS = 900.0
"""For one answer: the largest layers of the slowest peers take minutes to prepare."""

LAST_SECONDS = 5.0
"""From the end of a peer's output to its own end."""

STOPS = sys.platform == "linux"
"""A peer's process is stopped while it isn't asked anything: threads that wait for their next work by spinning would
take processors from others' turns. Only where a stopped one ends with this process whatever happens: peers/serve.py."""

BETWEEN_TURNS = "stopped" if STOPS else "left to sleep"
"""What becomes of a peer's process then, for a result."""

_LONGEST_ANSWER = 1 << 20  # bytes


class PeerFailed(EStreamError):
    """A peer that died, did not answer in time, answered nonsense, or told of an error."""


class Unsupported(Exception):
    """A row that the peer doesn't have on this machine; the message is its reason."""


class Session:
    """One peer's process, from its start to `close`; usable as a context manager.

    It runs in a process session of its own: ^C is ours to handle, and ends it through `close`.

    Args:
        name: of the peer, for messages.
        command: program and arguments; it speaks the protocol of peers/serve.py.
        environment: all of it; by default this process's.
        deadline: seconds that one answer may take.

    Raises:
        PeerFailed: the program can't be started.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        deadline: float = DEADLINE_SECONDS,
    ) -> None:
        self.name, self.deadline = name, deadline
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, bufsize=0,
                env=environment, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._said.close()
            raise PeerFailed(f"the peer {name} can't be started ({error.strerror}): run `make peers` again") from error

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process(self) -> int:
        """Its id."""
        return self._process.pid

    def close(self) -> None:
        """End the process, whatever it is at."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._said):
            if stream is not None:
                stream.close()

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises:
            Unsupported: the peer doesn't have this row here.
            PeerFailed: anything else but an answer.
        """
        with self._awake():
            self._send({"do": do, **request})
            answer = self._parse(self._receive(do))
        if "unsupported" in answer:
            raise Unsupported(str(answer["unsupported"]))
        if "error" in answer:
            raise PeerFailed(f"the peer {self.name} failed to {do}: {answer['error']}; leave it out with --peer")
        found = answer.get("ok")
        if not isinstance(found, dict):
            raise self._nonsense(json.dumps(answer))
        return found

    @contextmanager
    def _awake(self) -> Iterator[None]:
        """The process runs within, see `STOPS`."""
        if STOPS:
            self._process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            if STOPS:
                self._process.send_signal(signal.SIGSTOP)

    @contextmanager
    def answer_of(self, do: str) -> Iterator[None]:
        """Around what is taken from an answer: one that lacks it is nonsense."""
        try:
            yield
        except (KeyError, TypeError, ValueError) as error:
            raise PeerFailed(
                f"the peer {self.name} answered to {do} without {error}: run `make peers` again"
            ) from error

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise self._died() from None

    def _receive(self, do: str) -> bytes:
        """One line of standard output, without its end."""
        assert self._process.stdout is not None
        pipe, line, until = self._process.stdout.fileno(), b"", time.monotonic() + self.deadline
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise PeerFailed(
                    f"the peer {self.name} did not {do} within {self.deadline:g} s: choose fewer --tokens, or another "
                    "--shape"
                )
            part = os.read(pipe, 1 << 16)
            if not part:
                raise self._died()
            line += part
            if len(line) > _LONGEST_ANSWER:
                raise self._nonsense(line[:80].decode(errors="replace"))
        return line[:-1]

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._nonsense(line[:80].decode(errors="replace"))
        return answer

    def _nonsense(self, line: str) -> PeerFailed:
        return PeerFailed(f"the peer {self.name} answered {line!r}, which is no answer: run `make peers` again")

    def _died(self) -> PeerFailed:
        try:
            status = self._process.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:  # its output is closed, and it goes on
            self._process.kill()
            status = self._process.wait()
        how = f"status {status}" if status >= 0 else f"signal {-status}"
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        last = f", its last words: {said[-1]}" if said else ""
        return PeerFailed(f"the peer {self.name} died ({how}){last}; leave it out with --peer")
