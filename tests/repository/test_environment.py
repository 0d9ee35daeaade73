"""pyproject.toml is the one truth for dependencies: environment.yml, the locks and the imports agree with it."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = {r.name: r for r in map(Requirement, PROJECT["project"]["dependencies"])}
EXTRAS = {
    extra: {r.name: r for r in map(Requirement, lines)}
    for extra, lines in PROJECT["project"]["optional-dependencies"].items()
}
PIP_NAME_OF_CONDA = {"python-xxhash": "xxhash", "jupyter_client": "jupyter-client"}  # the rest carry the same name
MODULE_OF_PACKAGE = {"ipython": "IPython", "pyzmq": "zmq"}  # packages whose module has another name
LOCKS = {
    "requirements.lock": [RUNTIME, EXTRAS["build"]],
    "requirements-dev.lock": [RUNTIME, EXTRAS["build"], EXTRAS["dev"]],
}
PLATFORMS = [
    {
        "python_full_version": f"{python}.9",
        "python_version": python,
        "sys_platform": system,
        "platform_machine": machine,
    }
    for python in ("3.11", "3.12", "3.13", "3.14")
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
]


def lock_entries(name: str) -> list[tuple[Requirement, int]]:
    """Each pin of a lock with its number of hashes."""
    found: list[tuple[Requirement, int]] = []
    for line in (ROOT / name).read_text().splitlines():
        if line.startswith("    --hash=sha256:"):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((Requirement(line.removesuffix("\\")), 0))
    return found


def pinned(name: str, platform: dict[str, str]) -> dict[str, str]:
    """The versions that a lock installs on a platform."""
    environment = default_environment() | platform | {"os_name": "posix"}
    versions: dict[str, str] = {}
    for requirement, _ in lock_entries(name):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            assert requirement.name not in versions, f"{name} pins {requirement.name} twice on {platform}"
            versions[requirement.name] = str(requirement.specifier).removeprefix("==")
    return versions


def conda_requirements() -> list[Requirement]:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    names = [line for line in listed if isinstance(line, str)]
    (pip,) = [entry["pip"] for entry in listed if isinstance(entry, dict)]
    assert pip.pop() == "--editable ."
    requirements = [Requirement(line) for line in names + pip]
    for requirement in requirements:
        requirement.name = PIP_NAME_OF_CONDA.get(requirement.name, requirement.name)
    return requirements


def test_environment_yml_repeats_the_names_and_ranges_of_pyproject() -> None:
    conda = {r.name: str(r.specifier) for r in conda_requirements()}
    assert conda.pop("python") == PROJECT["project"]["requires-python"]
    assert conda.pop("pip") == ""
    assert conda == {name: str(r.specifier) for name, r in RUNTIME.items()}


def test_environment_yml_names_each_package_once() -> None:
    names = [r.name for r in conda_requirements()]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: "-".join(list(p.values())[1:]))
def test_a_lock_pins_every_dependency_within_its_range(lock: str, platform: dict[str, str]) -> None:
    versions = pinned(lock, platform)
    for group in LOCKS[lock]:
        for name, requirement in group.items():
            assert versions[canonicalize_name(name)] in requirement.specifier, f"{lock} is out of step: run `make lock`"


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: "-".join(list(p.values())[1:]))
def test_all_locks_agree_on_versions(platform: dict[str, str]) -> None:
    runtime = pinned("requirements.lock", platform)
    development = pinned("requirements-dev.lock", platform)
    oracle = pinned("oracle/requirements.lock", platform)
    assert runtime.items() <= development.items()
    assert runtime.items() <= oracle.items()


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda p: "-".join(list(p.values())[1:]))
def test_the_oracle_is_split_into_torch_and_the_rest(platform: dict[str, str]) -> None:
    rest, torch = pinned("oracle/requirements.lock", platform), pinned("oracle/torch-pypi.lock", platform)
    for name, requirement in EXTRAS["oracle"].items():
        assert (torch if name == "torch" else rest)[name] in requirement.specifier, "run `make lock`"
    assert not rest.keys() & torch.keys()
    assert not [name for name in rest if name.startswith(("nvidia-", "cuda-"))]
    if platform["sys_platform"] == "darwin":
        assert list(torch) == ["torch"]


def test_the_cpu_build_of_torch_is_the_same_release() -> None:
    ((requirement, hashes),) = lock_entries("oracle/torch-cpu.lock")
    assert str(requirement) == f"{EXTRAS['oracle']['torch']}+cpu"
    assert hashes >= 1


@pytest.mark.parametrize(
    "lock", [*LOCKS, "oracle/requirements.lock", "oracle/torch-pypi.lock", "oracle/torch-cpu.lock"]
)
def test_a_lock_has_hashes_and_no_addresses(lock: str) -> None:
    assert all(hashes > 0 for _, hashes in lock_entries(lock))
    lines = (ROOT / lock).read_text().splitlines()
    assert not [line for line in lines if "://" in line or line.startswith(("#", "-"))]


def test_the_extra_build_holds_the_build_backend() -> None:
    assert PROJECT["project"]["optional-dependencies"]["build"] == PROJECT["build-system"]["requires"]


def test_a_package_has_one_range_wherever_it_is_listed() -> None:
    ranges: dict[str, set[str]] = {}
    for group in (RUNTIME, *EXTRAS.values()):
        for name, requirement in group.items():
            ranges.setdefault(name, set()).add(str(requirement.specifier))
    assert {name: found for name, found in ranges.items() if len(found) > 1} == {}


def test_each_dependency_has_its_reason_beside_it() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    pins = re.findall(r'^ {4}"[a-z0-9-]+[=><][^"]*",.*$', text, flags=re.MULTILINE)
    assert len(pins) == len(RUNTIME) + sum(len(EXTRAS[extra]) for extra in ("dev", "oracle"))
    assert [line for line in pins if "  # " not in line and ", # " not in line] == []


def test_every_third_party_import_of_the_package_is_declared() -> None:
    declared = {MODULE_OF_PACKAGE.get(name, name).replace("-", "_") for name in RUNTIME}
    undeclared = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in (ROOT / "estream_lab").rglob("*.py")
        for module in imported_modules(path)
        if module not in declared | set(sys.stdlib_module_names) | {"estream_lab"}
    }
    assert undeclared == set()


def imported_modules(path: Path) -> set[str]:
    """The top-level modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found
