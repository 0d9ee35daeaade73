"""The command as a function."""

from collections.abc import Callable

import pytest

from estream_lab.cli import main

Run = Callable[..., tuple[int, str, str]]
"""Takes arguments; gives the status and what was printed to standard output and error."""


@pytest.fixture
def estream(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run
