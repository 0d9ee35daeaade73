"""Runs of the command line in processes of their own that tell their whole peak, for tests of memory budgets."""

import re
import sys
from dataclasses import dataclass
from typing import Any

CODE = """
import sys
import estream_lab.engine.kernels as kernels, estream_lab.engine.request as request
kernels.reset_peak_rss = request.reset_peak_rss = lambda: False  # one peak, from the process's start to its end
from estream_lab.cli import main
from estream_lab.machine import peak_rss_bytes
status = main(sys.argv[1:])
sys.stderr.write(f"\\npeak {peak_rss_bytes()}\\n")
sys.exit(status)
"""


def prefill_command(store: object, tokens: int, budget: str, **options: object) -> list[str]:
    """``estream prefill`` on so many tokens, under a budget such as 200MiB."""
    ids = ",".join(str((7 * i + 3) % 96) for i in range(tokens))
    given = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-c", CODE, "prefill", str(store), "--tokens", ids, "--json"]
    return [*command, "--memory-budget", budget, *given]


@dataclass(frozen=True)
class Ended:
    """A process that ended: its JSON, and the highest resident set of its life in bytes."""

    figures: dict[str, Any]
    peak: int

    @property
    def least(self) -> str:
        """The budget that its refusal names, as an option's value."""
        named = re.search(r"the least that works is (\d+MiB)", self.figures["error"])
        assert named is not None, self.figures
        return named[1]


def peak_told(stderr: str) -> int:
    """The peak that a process told."""
    told = re.search(r"^peak (\d+)$", stderr, re.MULTILINE)
    assert told is not None, stderr
    return int(told[1])
