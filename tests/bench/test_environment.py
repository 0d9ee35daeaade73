"""Peers inherit nothing that steers their libraries, and a result says what that was."""

import pytest

from estream_lab.bench.environment import KEEP_MEMORY, peers_environment, told

GIVEN = {
    "PATH": "/bin",
    "HOME": "/home",
    "OMP_NUM_THREADS": "1",
    "MKL_DEBUG_CPU_TYPE": "5",
    "NUMBA_CPU_NAME": "generic",
    "MALLOC_ARENA_MAX": "1",
    "COMP_WORDBREAKS": " ",
}


def test_peers_get_what_does_not_steer_and_keep_their_memory() -> None:
    kept = {"PATH": "/bin", "HOME": "/home", "NUMBA_CPU_NAME": "generic", "COMP_WORDBREAKS": " "}
    assert peers_environment(GIVEN) == kept | KEEP_MEMORY


@pytest.mark.parametrize(
    "name", ["OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY", "KMP_BLOCKTIME", "GGML_NO_BACKTRACE", "TORCH_BLAS_PREFER_CUBLASLT"]
)
def test_a_steering_variable_of_this_process_is_not_inherited(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "odd")
    assert name not in peers_environment() and told()["cleared"][name] == "odd"


def test_what_acts_on_us_is_told() -> None:
    found = told(GIVEN)
    assert found["ours"] == {"NUMBA_CPU_NAME": "generic", "MALLOC_ARENA_MAX": "1"}
    assert list(found["cleared"]) == ["MALLOC_ARENA_MAX", "MKL_DEBUG_CPU_TYPE", "OMP_NUM_THREADS"]
    assert found["set"] == KEEP_MEMORY
