"""Our int8 lane is never less accurate than ggml on the same Q4_0 weights and the same activations."""

import json
from pathlib import Path
from typing import Any

import pytest

from estream_lab.bench.inputs import KINDS
from estream_lab.bench.shapes import LayerShape
from estream_lab.cli import main
from estream_lab.cli.bench import kernels
from estream_lab.kernels.host import thread_limit

SHAPE = LayerShape("small", 1024, 512, 8, 2, 3.0)
TOKENS = (32, 256)


@pytest.fixture(name="errors", scope="module")
def _errors(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], dict[str, float]]:
    """Relative L2 errors against float64 with the same weights: of each row's name and T, by kind of activations."""
    output: Path = tmp_path_factory.mktemp("errors") / "out.json"
    command = ["bench", "kernels", "--peer", "ggml", "--shape", "olmoe", "--tokens", *map(str, TOKENS)]
    command += ["--threads", str(min(2, thread_limit())), "--rounds", "1", "-o", str(output)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(kernels.SHAPES, "olmoe", SHAPE)
        patch.setenv("XDG_CACHE_HOME", str(output.parent))
        assert main(command) == 0
    rows: list[dict[str, Any]] = json.loads(output.read_text())["rows"]
    return {(row["name"], row["tokens"]): row["relative_errors"] for row in rows}


@pytest.mark.parametrize("kind", KINDS)
def test_int8_is_never_less_accurate_than_ggml_on_the_same_weights(
    errors: dict[tuple[str, int], dict[str, float]], kind: str
) -> None:
    theirs = [(name, tokens) for name, tokens in errors if name.partition(" ")[0] == "q4_0"]
    assert {tokens for _, tokens in theirs} == set(TOKENS)
    for name, tokens in theirs:
        assert errors["host int8", tokens][kind] <= errors[name, tokens][kind], (name, tokens)
