"""The locks of the peers' environment agree with peers/requirements.in and with the other locks."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.tags import cpython_tags

ROOT = Path(__file__).parent.parent.parent
LOCKS = ("peers/requirements.lock", "peers/llama-cpp.lock", "peers/kt-kernel.lock")


def pins(name: str) -> list[tuple[Requirement, int]]:
    """Each pin of a lock with its number of hashes."""
    found: list[tuple[Requirement, int]] = []
    for line in (ROOT / name).read_text().splitlines():
        if line.startswith("    --hash=sha256:"):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((Requirement(line.removesuffix("\\")), 0))
    return found


def versions(name: str) -> dict[str, str]:
    """What a lock installs here."""
    return {
        pin.name: str(pin.specifier).removeprefix("==")
        for pin, _ in pins(name)
        if pin.marker is None or pin.marker.evaluate()
    }


def asked() -> dict[str, Requirement]:
    texts = [(ROOT / "peers" / name).read_text() for name in ("requirements.in", "kt-kernel.in")]
    lines = [line.split("#")[0].strip() for line in "".join(texts).splitlines()]
    return {requirement.name: requirement for requirement in map(Requirement, filter(None, lines))}


def test_the_locks_hold_what_is_asked_for() -> None:
    locked = {n: v for lock in (*LOCKS, "oracle/torch-pypi.lock") for n, v in versions(lock).items()}
    assert {n: r for n, r in asked().items() if locked[n] not in r.specifier} == {}, "run `make lock`"


def test_what_is_built_or_may_be_missing_has_a_lock_of_its_own() -> None:
    assert list(versions("peers/llama-cpp.lock")) == ["llama-cpp-python"]
    assert list(versions("peers/kt-kernel.lock")) == ["kt-kernel"]
    assert not versions("peers/requirements.lock").keys() & {"llama-cpp-python", "torch", "triton"}


def test_the_peers_agree_with_the_development_lock() -> None:
    development = versions("requirements-dev.lock")
    assert {n: v for n, v in versions("peers/requirements.lock").items() if development.get(n, v) != v} == {}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_hashes_and_no_addresses(lock: str) -> None:
    assert all(hashes > 0 for _, hashes in pins(lock))
    lines = (ROOT / lock).read_text().splitlines()
    assert not [line for line in lines if "://" in line or line.startswith(("#", "-"))]


def wheels() -> Any:
    spec = importlib.util.spec_from_file_location("kt_kernel_wheels", ROOT / "peers" / "kt_kernel_wheels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_platform_that_a_wheel_is_for_is_told_nothing() -> None:
    module = wheels()
    assert len(module.WHEELS) == pins("peers/kt-kernel.lock")[0][1]  # one for each hash
    assert module.reason(cpython_tags((3, 12), platforms=["manylinux_2_36_x86_64", "manylinux_2_35_x86_64"])) == ""
    for python, system in (((3, 13), "manylinux_2_35_x86_64"), ((3, 12), "manylinux_2_31_x86_64"),
                           ((3, 12), "manylinux_2_35_aarch64"), ((3, 12), "macosx_14_0_arm64")):  # fmt: skip
        told = module.reason(cpython_tags(python, platforms=[system]))
        assert told.startswith("kt-kernel comes as cp311-") and "neither of which Python" in told
