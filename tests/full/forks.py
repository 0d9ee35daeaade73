"""Commands in processes of their own that are there at once: a parent that has loaded everything is forked.

A kill then hits the command's work and not the loading of the compiler, which takes ten times as long.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.full.processes import deadline, started

PARENT = """
import json, os, signal, sys, time
from estream_lab.cli import main
from estream_lab.engine.kernels import open_kernels
from estream_lab.experts.executors import HOST
import estream_lab.viz.report
open_kernels(HOST, {"head.weight": "f32"})
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            sink = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(sink, 1), os.dup2(sink, 2)
            exec(order["prelude"])
            status = main(order["arguments"])
            sys.stdout.flush()
        finally:
            os._exit(status)
    if order["kill_after"] is not None:
        time.sleep(order["kill_after"])  # the moment that was drawn
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), time.monotonic() - start]), flush=True)
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: -9 if it was killed.
        seconds: what it took.
        output: standard output and error.
    """

    status: int
    seconds: float
    output: str


class Forks:
    """See the module; made by `forks`."""

    def __init__(self, parent: "subprocess.Popen[str]", output: str) -> None:
        self._parent, self._output = parent, output

    def run(self, arguments: Sequence[str], kill_after: float | None = None, prelude: str = "") -> Ended:
        """Run ``estream`` with these arguments; kill it after that many seconds.

        Args:
            arguments: of the command line.
            kill_after: None lets it end by itself.
            prelude: code that the process runs first.
        """
        assert self._parent.stdin is not None and self._parent.stdout is not None
        order = {"arguments": list(arguments), "kill_after": kill_after, "prelude": prelude, "output": self._output}
        with deadline(self._parent):
            print(json.dumps(order), file=self._parent.stdin, flush=True)
            status, seconds = json.loads(self._parent.stdout.readline())
        with open(self._output, encoding="utf-8", errors="replace") as file:
            return Ended(status, seconds, file.read())


@contextmanager
def forks(output: str) -> Iterator[Forks]:
    """A parent to fork commands from; ``output`` is the file that takes what they print."""
    with started([sys.executable, "-c", PARENT], seconds=None, stdin=subprocess.PIPE) as parent:
        with deadline(parent):
            assert parent.stdout is not None and parent.stdout.readline() == "ready\n"
        yield Forks(parent, output)
