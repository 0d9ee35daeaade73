"""A notebook in a real JupyterLab, run and handled as a reader does."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Locator, Page

from .lab import Lab
from .watch import Watch, watched_browser

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "out" / "ui"
NOTEBOOKS = ROOT / "notebooks"
RUN_MS = 900_000  # the kernels may have to be compiled first
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
PROMPTS_DONE = """() => {
    const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(p => p.textContent);
    const stopped = document.querySelector('.jp-Dialog, [data-mime-type="application/vnd.jupyter.error"]');
    return stopped || (prompts.length && prompts.every(p => /\\[\\d+\\]/.test(p)));
}"""

DRAWN = """(plot, keys) => {
    const list = values => Array.from(values?._inputArray ?? values ?? []);
    return JSON.stringify(plot.data.map(trace => [trace.name ?? null, ...keys.map(key => list(trace[key]))]));
}"""
PLACE = """(plot, [trace, point]) => {
    const drawn = plot._fullData[trace], layout = plot._fullLayout, box = plot.getBoundingClientRect();
    const [x, y] = [layout[drawn.xaxis.replace('x', 'xaxis')], layout[drawn.yaxis.replace('y', 'yaxis')]];
    return [box.x + x._offset + x.d2p(drawn.x[point]), box.y + y._offset + y.d2p(drawn.y[point])];
}"""


@dataclass(frozen=True)
class Desk:
    """One notebook open in a browser: `name` is its file, `page` the browser's page, `watch` what went on there."""

    name: str
    page: Page
    watch: Watch
    ids: tuple[str, ...]

    def cell(self, name: str) -> Locator:
        """The cell with that id."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(self.ids.index(name))

    def run_all(self) -> None:
        """Run > Run All Cells, and wait for the last cell and an idle kernel."""
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        self.page.wait_for_function(PROMPTS_DONE, timeout=RUN_MS)

    def drawn(self, name: str, *keys: str) -> list[list[Any]]:
        """Of each trace of the plotly figure in a cell, as the browser holds it: its name and the values of `keys`."""
        return self.drawn_in(self._plot(name), *keys)

    def drawn_in(self, plot: Locator, *keys: str) -> list[list[Any]]:
        """As `drawn`, of a plotly figure anywhere in the page."""
        found: list[list[Any]] = json.loads(plot.evaluate(DRAWN, list(keys)))
        return found

    def wait_for_drawing(self, name: str, before: list[list[Any]], *keys: str) -> None:
        """Wait until the figure in a cell holds other values of `keys` than `before`, which `drawn` gave."""
        now = f"([plot, keys, before]) => ({DRAWN})(plot, keys) !== before"
        written = json.dumps(before, separators=(",", ":"), ensure_ascii=False)
        self.page.wait_for_function(now, arg=[self._plot(name).element_handle(), list(keys), written])

    def wait_for_trace(self, name: str, trace: int, key: str, values: list[Any]) -> None:
        """Wait until a trace of the figure in a cell holds exactly these values of `key`."""
        now = f"([plot, keys, trace, values]) => JSON.stringify(JSON.parse(({DRAWN})(plot, keys))[trace][1]) === values"
        written = json.dumps(values, separators=(",", ":"))
        self.page.wait_for_function(now, arg=[self._plot(name).element_handle(), [key], trace, written])

    def click_point(self, name: str, trace: int, point: int) -> None:
        """Click a point of a scatter trace of the figure in a cell, where it is drawn."""
        plot = self._plot(name)
        plot.scroll_into_view_if_needed()
        x, y = plot.evaluate(PLACE, [trace, point])
        self.page.mouse.move(x - 3, y - 3)  # plotly learns by the pointer's moves what is under it
        self.page.mouse.move(x, y)
        self.page.mouse.click(x, y)

    def _plot(self, name: str) -> Locator:
        return self.cell(name).locator(".js-plotly-plot")

    def slider(self, name: str, label: str) -> Locator:
        """The handle of the slider with that label in a cell."""
        labelled = self.page.locator(".widget-label").get_by_text(label, exact=True)
        return self.cell(name).locator(".widget-slider", has=labelled).locator(".noUi-handle")

    def line(self, name: str) -> str:
        """The explorer's line of text in a cell."""
        return self.cell(name).locator(".widget-html").first.inner_text()

    def wait_for_line(self, name: str, words: str) -> None:
        """Wait until the explorer's line in a cell holds these words."""
        self.cell(name).locator(".widget-html", has_text=words).first.wait_for()

    def press(self, name: str, label: str, key: str = "ArrowRight") -> None:
        """Press a key on a slider's handle."""
        handle = self.slider(name, label)
        handle.focus()
        handle.press(key)

    def use_theme(self, theme: str) -> None:
        """Turn JupyterLab light or dark."""
        name = THEMES[theme]
        self.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
        self.page.locator(f'body[data-jp-theme-name="{name}"]').wait_for(state="attached")

    def check_outputs(self, figures: list[str]) -> None:
        """No cell failed or asked back, each of these is a plotly drawing, and none offers to send data away."""
        assert self.page.locator(".jp-Dialog").all_inner_texts() == []
        for kind in ("stderr", "error"):
            found = self.page.locator(f'[data-mime-type="application/vnd.jupyter.{kind}"]').all_inner_texts()
            assert found == [], found
        for name in figures:
            self.cell(name).locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)
        titles = self.page.locator(".modebar-btn").evaluate_all("all => all.map(b => b.getAttribute('data-title'))")
        assert "Zoom" in titles
        assert [title for title in titles if "Share" in title] == []

    def take_pictures(self, figures: list[str], prefix: str = "") -> None:
        """Each figure as the reader sees it, in both themes, as `out/ui/{prefix}{cell}-{theme}.png`."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        for theme in THEMES:
            self.use_theme(theme)
            for name in figures:
                output = self.cell(name).locator(".jp-Cell-outputArea")
                output.scroll_into_view_if_needed()
                path = PICTURES / f"{prefix}{name}-{theme}.png"
                output.screenshot(path=path)
                assert path.stat().st_size > 5_000

    def check_watch(self) -> None:
        """Nothing was complained of, nothing left the machine, nobody asked for news."""
        assert self.watch.errors == []
        assert self.watch.abroad() == []
        assert [url for url in self.watch.requests if "api/news" in url or "api/update" in url] == []
        assert len(self.watch.requests) > 50


@contextmanager
def open_notebook(notebook: Path, folder: Path) -> Iterator[Desk]:
    """A copy of the notebook beside the shipped data, in a JupyterLab with all its files in `folder`: the checkout
    stays as it is."""
    name = notebook.name
    (folder / "desk" / "notebooks").mkdir(parents=True)
    shutil.copy(notebook, folder / "desk" / "notebooks" / name)
    (folder / "desk" / "data").symlink_to(ROOT / "data")
    ids = tuple(cell.id for cell in nbformat.read(notebook, as_version=4).cells)  # type: ignore[no-untyped-call]
    with Lab(folder / "desk", folder / "lab") as lab, watched_browser(folder / "profile") as (_, page, watch):
        page.goto(lab.page(f"notebooks/{name}"))
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=180_000)
        yield Desk(name, page, watch, ids)
