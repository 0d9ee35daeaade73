"""What must never be committed: addresses of registries, paths of one machine, outputs in notebooks, large files."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LARGEST_FILE_BYTES = 16 * 2**20
# clients' own names for a registry, whatever host it is: --index-url, registry=, deb http://…
REGISTRY = re.compile(
    r"(--?(extra-)?index(-url)?[ =]+|--find-links[ =]+|registry\s*=\s*|^deb(-src)?\s+)\S*(https?|file)://"
    r"|https?://[^/\s]*(pypi\.|pythonhosted|npmjs|debian\.org/debian|proxy\.golang|crates\.io)",
    flags=re.MULTILINE,
)
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(home/\w+|root|Users/\w+|work)/[\w.]")
BINARY = {".safetensors", ".png", ".npz", ".npy", ".gz", ".bin"}


def tracked() -> list[Path]:
    """The files of the repository and those about to be added; in a downloaded archive, every file outside a venv."""
    if not (ROOT / ".git").exists():
        top = [
            path for path in ROOT.iterdir() if not path.name.startswith(".venv") and path.name not in {"build", "out"}
        ]
        return [
            path
            for start in top
            for path in [start, *start.rglob("*")]
            if path.is_file() and "__pycache__" not in path.parts
        ]
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


TEXTS = [path for path in tracked() if path.suffix not in BINARY and path != Path(__file__)]
NOTEBOOKS = [path for path in tracked() if path.suffix == ".ipynb"]


def matches(pattern: re.Pattern[str]) -> list[str]:
    """Each match of a pattern in the repository's texts, as file: text."""
    return [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for path in TEXTS
        for found in pattern.finditer(path.read_text(errors="replace"))
    ]


def outputs(notebook: str) -> list[str]:
    """What a notebook's text holds that only a run may leave: outputs, execution counts, widget state."""
    content = json.loads(notebook)
    left = [
        f"cell {i}" for i, cell in enumerate(content["cells"]) if cell.get("outputs") or cell.get("execution_count")
    ]
    return left + (["widget state"] if "widgets" in content["metadata"] else [])


def test_no_file_names_a_registry() -> None:
    assert matches(REGISTRY) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert matches(MACHINE_PATH) == []


def test_notebooks_hold_no_outputs() -> None:
    assert {path.name: left for path in NOTEBOOKS if (left := outputs(path.read_text()))} == {}


def test_no_file_is_larger_than_16_mib() -> None:
    assert [path for path in tracked() if path.stat().st_size > LARGEST_FILE_BYTES] == []


def test_only_the_oracle_tests_import_the_reference_implementation() -> None:
    importing = [
        path.relative_to(ROOT).as_posix()
        for folder in ("estream_lab", "device_bridge", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if imports_reference(path.read_text())
    ]
    assert [name for name in importing if not name.startswith("tests/oracle/")] == []


def imports_reference(source: str) -> bool:
    """Whether a source imports torch or transformers, wherever in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return any(name.split(".")[0] in {"torch", "transformers"} for name in names)


@pytest.mark.parametrize(
    "planted",
    [
        "pip install --index-url https://mirror.example/simple",
        "registry=https://mirror.example/",
        "deb http://mirror.example stable main",
        "--find-links file:///opt/wheels",
        "https://files.pythonhosted.org/packages/x.whl",
    ],
)
def test_a_planted_registry_is_seen(planted: str) -> None:
    assert REGISTRY.search(planted)


@pytest.mark.parametrize("planted", ['"/home/ada/x"', "see /Users/ada/lab"])
def test_a_planted_machine_path_is_seen(planted: str) -> None:
    assert MACHINE_PATH.search(planted)


@pytest.mark.parametrize("fine", ["/path/to/python", "~/r/x", "$HOME/x", "build/root/x", "./work/x"])
def test_a_path_of_no_machine_passes(fine: str) -> None:
    assert not MACHINE_PATH.search(fine)


def test_planted_outputs_are_seen() -> None:
    cell = {"cell_type": "code", "outputs": [{}], "execution_count": None}
    assert outputs(json.dumps({"cells": [cell], "metadata": {"widgets": {}}})) == ["cell 0", "widget state"]


def test_planted_imports_of_the_reference_are_seen() -> None:
    assert imports_reference("def f():\n    from torch.nn import Linear")
    assert not imports_reference("from estream_lab.torchlike import x")
