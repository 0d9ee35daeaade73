"""The report of a prefill in a browser without a network, in both colour schemes."""

from pathlib import Path

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.viz.report import write_report
from tests.stores import SPEC, synthetic_store

from .watch import watched_browser

PICTURES = Path(__file__).parents[2] / "out" / "ui"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_offline(scheme: str, tmp_path: Path) -> None:
    tokens = np.random.default_rng(5).integers(0, SPEC.vocab, 96).astype(np.int32)
    with PrefillEngine.open(synthetic_store(tmp_path), group_size=5, banks=2, read_bandwidth=5e6) as engine:
        write_report(engine.prefill(tokens), tmp_path / "report.html")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with watched_browser(tmp_path / "profile", scheme) as (_, page, watch):
        page.goto((tmp_path / "report.html").as_uri())
        for name in ("timeline", "routes", "memory", "next"):
            page.locator(f"#{name} .main-svg").first.wait_for()
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.screenshot(path=PICTURES / f"report-{scheme}.png", full_page=True)
        assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}[scheme]
        assert watch.errors == []
        assert [url for url in watch.requests if not url.startswith(("file:", "data:", "blob:"))] == []
