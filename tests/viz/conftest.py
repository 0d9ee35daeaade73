"""A small store, made once."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.stores import SPEC, synthetic_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_store(tmp_path_factory.mktemp("viz"))


@pytest.fixture(scope="session")
def tokens() -> NDArray[np.int32]:
    return np.random.default_rng(5).integers(0, SPEC.vocab, 24).astype(np.int32)
