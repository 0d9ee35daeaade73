import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine, PrefillResult
from estream_lab.errors import EStreamError
from estream_lab.viz.report import write_report


@pytest.fixture(scope="module")
def result(store: Path, tokens: NDArray[np.int32]) -> PrefillResult:
    with PrefillEngine.open(store, group_size=5, banks=2, read_bandwidth=50e6) as engine:
        return engine.prefill(tokens)


class Page(HTMLParser):
    """Collects text outside scripts, cells, and every attribute that could fetch something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetches: list[tuple[str, str]] = []
        self.cells: list[str] = []
        self.ids: list[str] = []
        self.policy = ""
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.inside = tag
        self.fetches += [(tag, values[name]) for name in ("src", "href", "srcset", "action", "data") if name in values]
        if tag == "link" or tag == "iframe":
            self.fetches.append((tag, ""))
        if tag == "div" and "id" in values:
            self.ids.append(values["id"])
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]

    def handle_data(self, data: str) -> None:
        if self.inside == "td":
            self.cells.append(data)


def test_the_page_carries_all_it_needs(result: PrefillResult, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(result, path)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.fetches == []
    assert page.policy.startswith("default-src 'none';")
    assert page.ids == ["timeline", "routes", "memory", "next"]
    assert len(re.findall(r"plotly\.js v\d", text)) == 1
    for value in (result.logits_sha256, "host-int8", "50000000.0", f"{result.storage_idle:.1%}"):
        assert value in page.cells
    for part in ("expert arena", "activations", "kernel scratch", "interpreter", "unaccounted", "planned peak"):
        assert part in page.cells
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html"]


def test_the_same_run_gives_the_same_bytes(result: PrefillResult, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_report(result, tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_text_from_outside_stays_text(result: PrefillResult, tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    spans = replace(result.trace, provenance={**result.trace.provenance, "model": hostile, "machine": hostile})
    changed = replace(result, trace=spans, machine=hostile, top=[(1, hostile, -1.0)])
    write_report(changed, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert hostile not in text
    assert "<script>alert" not in text


def test_a_path_that_cannot_be_written_is_named(result: PrefillResult, tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match="nowhere"):
        write_report(result, tmp_path / "nowhere" / "report.html")
