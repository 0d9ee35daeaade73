"""What lessons' tests share: the lesson run once for all tests of a file, and the shipped model in a store."""

from pathlib import Path
from typing import Any

import pytest

from estream_lab.notebooks import run
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack

from .lessons import SHIPPED

MOST_BYTES = 400_000
"""Of an executed lesson: its figures are static, and no widget's state is in it."""


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What the module's `LESSON` records in its fast form, and the executed notebook."""
    folder = tmp_path_factory.mktemp("lesson")
    (result,) = run([request.module.LESSON], {"fast": True}, folder).notebooks
    assert result.output_bytes < MOST_BYTES
    return result.records, folder / request.module.LESSON.name


@pytest.fixture(scope="module")
def records(ran: tuple[dict[str, Any], Path]) -> dict[str, Any]:
    return ran[0]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The shipped model, packed."""
    path = tmp_path_factory.mktemp("store") / "tiny.estream"
    pack(SHIPPED / "checkpoint", path, progress=False)
    return Store(path)
