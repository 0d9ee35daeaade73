"""Stores that the engine's tests share."""

from pathlib import Path

import pytest

from tests.stores import synthetic_store


@pytest.fixture(scope="session")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_store(tmp_path_factory.mktemp("engine"))
