"""What the fault tests share."""

import pytest

from tests.faults.matrix import Reference
from tests.stores import synthetic_store


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """A store without faults, and what it gives."""
    return Reference.of(synthetic_store(tmp_path_factory.mktemp("reference")))
