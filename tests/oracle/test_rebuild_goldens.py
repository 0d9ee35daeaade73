"""The committed goldens are what transformers computes today. Runs in the oracle's environment (`make test-full`)."""

import json
import subprocess
import sys
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from ..golden_compare import GOLDENS

BUILDER = Path(__file__).parent.parent.parent / "oracle" / "build_goldens.py"
MODELS = ("random_olmoe", "tiny_moe")
# Another machine's BLAS sums in another order: half of the tolerance that our own float32 engine is held to.
LOGIT_TOLERANCE = 5e-5
WEIGHT_TOLERANCE = 1e-5
NUMERIC = {"logits": LOGIT_TOLERANCE, "weights": WEIGHT_TOLERANCE}
TIES = {"tie_layer", "tie_token", "tie_margin"}  # margins of less than 1e-5 come and go with the BLAS


@cache
def rebuilt(model: str) -> dict[str, bytes]:
    """The files that the documented command writes for one model, by path."""
    with TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(BUILDER), "--model", model, "--out", folder], check=True)
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def load(content: bytes) -> dict[str, np.ndarray]:
    with np.load(BytesIO(content)) as arrays:
        return dict(arrays)


def both(model: str, mode: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The committed arrays and the fresh ones."""
    name = f"{model}.{mode}.npz"
    return load((GOLDENS / name).read_bytes()), load(rebuilt(model)[name])


@pytest.mark.parametrize("mode", ["f32", "q4_0"])
@pytest.mark.parametrize("model", MODELS)
def test_a_golden_is_rebuilt(model: str, mode: str) -> None:
    committed, fresh = both(model, mode)
    assert set(committed) == set(fresh)
    for name in set(committed) - TIES - {"provenance"}:
        assert committed[name].dtype == fresh[name].dtype
        assert committed[name].shape == fresh[name].shape
        if name in NUMERIC:
            assert np.abs(committed[name] - fresh[name]).max() <= NUMERIC[name], name
        else:
            assert np.array_equal(committed[name], fresh[name]), name


@pytest.mark.parametrize("mode", ["f32", "q4_0"])
@pytest.mark.parametrize("model", MODELS)
def test_a_golden_names_the_same_checkpoint_and_versions(model: str, mode: str) -> None:
    committed, fresh = (json.loads(str(arrays["provenance"])) for arrays in both(model, mode))
    for key in ("checkpoint_sha256", "transformers", "random_olmoe_seed", "mode"):
        assert committed[key] == fresh[key]
    assert committed["torch"].split("+")[0] == fresh["torch"].split("+")[0]  # any build of the release


def test_the_random_checkpoint_is_rebuilt_byte_for_byte() -> None:
    committed = {f"random_olmoe/{file.name}": file.read_bytes() for file in (GOLDENS / "random_olmoe").iterdir()}
    fresh = {name: content for name, content in rebuilt("random_olmoe").items() if "/" in name}
    assert sorted(fresh) == sorted(committed)
    assert [name for name in fresh if fresh[name] != committed[name]] == []


def test_the_goldens_stay_small() -> None:
    assert sum(file.stat().st_size for file in GOLDENS.glob("*.npz")) <= 3 << 20
    assert sum(file.stat().st_size for file in (GOLDENS / "random_olmoe").iterdir()) <= 2 << 20
