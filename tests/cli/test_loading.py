"""What a command loads: each module is seconds that every call of it takes."""

import subprocess
import sys

import pytest

HEAVY = "nbformat papermill jsonschema plotly ipywidgets torch transformers"


@pytest.mark.parametrize("module", ["estream_lab.cli.main", "estream_lab.notebooks", "estream_lab.engine"])
def test_nothing_heavy_is_loaded_before_it_is_used(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY.split()!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
