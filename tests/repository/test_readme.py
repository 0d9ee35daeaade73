"""The README's example runs as it stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.experts.protocol import GroupKey
from tests.stores import synthetic_store

README = Path(__file__).parents[2] / "README.md"
TOKENS = list(range(24))


def test_the_policy_of_the_readme_reads_less_and_gives_the_same_logits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    synthetic_store(tmp_path).rename(tmp_path / "tiny.estream")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"seen": frozenset({GroupKey(1, 0)})}
    exec(compile(example, "README.md", "exec"), names)
    with names["engine"] as engine, PrefillEngine.open("tiny.estream") as early:
        own, published = engine.prefill(TOKENS), early.prefill(TOKENS)
    assert own.schedule == "popular" and own.logits_sha256 == published.logits_sha256
    assert own.bytes_speculative <= published.bytes_speculative
