"""The tour in a real JupyterLab: run to its end, moved by hand, looked at in both themes."""

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Page

from .lab import Lab
from .watch import Watch, watched_browser

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "out" / "ui"
TOUR = "00_tour.ipynb"
FIGURES = ["prefill", "routes", "compaction", "timeline", "idle", "memory", "equality", "explorer", "static"]
RUN_MS = 900_000  # the kernels may have to be compiled first
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the notebook beside the shipped data, so that the checkout stays as it is."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / TOUR, folder / "notebooks" / TOUR)
    (folder / "data").symlink_to(ROOT / "data")
    return folder


def cell(page: Page, name: str) -> Any:
    """The cell of the tour with that id."""
    ids = [item.id for item in nbformat.read(ROOT / "notebooks" / TOUR, as_version=4).cells]
    return page.locator(".jp-Notebook > .jp-WindowedPanel-outer .jp-Cell, .jp-Notebook .jp-Cell").nth(ids.index(name))


def drawn(page: Page, name: str) -> Any:
    """The data of the plotly figure in a cell, as the browser holds it."""
    plot = cell(page, name).locator(".js-plotly-plot")
    return json.loads(plot.evaluate("plot => JSON.stringify(plot.data.map(t => [t.name, t.x, t.base, t.y]))"))


def run_all(page: Page) -> None:
    """Run > Run All Cells, and wait for the last cell and an idle kernel."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(
        """() => {
            const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(p => p.textContent);
            const stopped = document.querySelector('.jp-Dialog, [data-mime-type="application/vnd.jupyter.error"]');
            return stopped || (prompts.length && prompts.every(p => /\\[\\d+\\]/.test(p)));
        }""",
        timeout=RUN_MS,
    )


def test_the_tour_runs_moves_and_is_readable(desk: Path, tmp_path: Path) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Lab(desk, tmp_path / "lab") as lab, watched_browser(tmp_path / "profile") as (_, page, watch):
        page.goto(lab.page(f"notebooks/{TOUR}"))
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=180_000)
        run_all(page)
        check_outputs(page)
        check_slider(page)
        for theme, name in THEMES.items():
            page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
            page.locator(f'body[data-jp-theme-name="{name}"]').wait_for(state="attached")
            take_pictures(page, theme)
        check_watch(watch)
    original = nbformat.read(ROOT / "notebooks" / TOUR, as_version=4)
    assert all(not c.get("outputs") and c.get("execution_count") is None for c in original.cells)


def check_outputs(page: Page) -> None:
    """No cell failed or asked back, every figure is a plotly drawing."""
    assert page.locator(".jp-Dialog").all_inner_texts() == []
    assert page.locator('[data-mime-type="application/vnd.jupyter.stderr"]').all_inner_texts() == []
    assert page.locator('[data-mime-type="application/vnd.jupyter.error"]').all_inner_texts() == []
    for name in FIGURES:
        cell(page, name).locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)
    assert "storage_idle = " in cell(page, "static").inner_text()
    titles = page.locator(".modebar-btn").evaluate_all("all => all.map(b => b.getAttribute('data-title'))")
    assert "Zoom" in titles
    assert [title for title in titles if "Share" in title] == []  # it would send data away


def check_slider(page: Page) -> None:
    """Moving G by hand runs the prefill again: data, line and values change in the browser."""
    explorer = cell(page, "explorer")
    before, line = drawn(page, "explorer"), explorer.locator(".widget-html").inner_text()
    assert line.startswith("G=4 ")
    handle = explorer.locator(".widget-slider", has_text="G").first.locator(".noUi-handle")
    handle.focus()
    handle.press("ArrowRight")
    page.wait_for_function(
        "line => [...document.querySelectorAll('.widget-html')].some(w => w.innerText.startsWith('G=8 '))",
        arg=line,
        timeout=120_000,
    )
    after = drawn(page, "explorer")
    assert after != before
    invocations = {name: len(x) for name, x, _, _ in after}
    assert invocations["experts"] < {name: len(x) for name, x, _, _ in before}["experts"]


def take_pictures(page: Page, theme: str) -> None:
    """Each figure as the reader sees it."""
    for name in FIGURES:
        output = cell(page, name).locator(".jp-Cell-outputArea")
        output.scroll_into_view_if_needed()
        path = PICTURES / f"{name}-{theme}.png"
        output.screenshot(path=path)
        assert path.stat().st_size > 5_000


def check_watch(watch: Watch) -> None:
    """Nothing was complained of, nothing left the machine, nobody asked for news."""
    assert watch.errors == []
    assert watch.abroad() == []
    assert [url for url in watch.requests if "api/news" in url or "api/update" in url] == []
    assert len(watch.requests) > 50
