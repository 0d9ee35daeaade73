"""From a key on a slider to changed pixels: `python -m tools.slider_latency [--json FILE] [NOTEBOOK ...]`.

Opens each lesson in a real JupyterLab, runs it, and moves every slider of its explorer by the keyboard: small steps,
and jumps to both ends. A move takes from the key's own time stamp, as the browser got it, to the frame that presents
the last change of the explorer's figure and text; slider and readout, which the browser moves by itself, don't count.
After the first move of each slider a screenshot taken at that frame must differ from the one before the move, and
equal the one taken when everything has long been still. A move that changes nothing but the slider is not counted,
another one is made in its place.

Needs the `dev` extra and an installed Chromium. Other work on the computer shows: the load is printed.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

from playwright.sync_api import Locator

from estream_lab.machine import processor
from tests.ui.desk import NOTEBOOKS, Desk, open_notebook

CELL = "explorer"
LESSONS = "0[1-9]_*.ipynb"  # the tour's sliders run the whole engine: they don't follow the hand
MEDIAN_MS, WORST_MS = 100.0, 250.0
STEPS = ["ArrowRight"] * 6 + ["End"] + ["ArrowLeft"] * 6 + ["Home"] + ["ArrowRight"] * 6
"""A key that would not move the slider, at its end, is replaced by the opposite one."""
MOVES, MOST_MOVES = 20, 200
STILL_MS = 2000  # nothing changed for so long: nothing will
OPPOSITE = {"ArrowRight": "ArrowLeft", "ArrowLeft": "ArrowRight", "End": "Home", "Home": "End"}

# `done` is called in the first task after a frame that followed a change: the frame is on its way to the screen then.
PROBE = """cell => {
    const plot = cell.querySelector('.js-plotly-plot'), line = cell.querySelector('.widget-html');
    const probe = window.latencyProbe = {};
    const presented = done => requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => done(performance.now());
        channel.port2.postMessage(0);
    });
    addEventListener('keydown', event => { probe.start = event.timeStamp; }, {capture: true});
    const note = () => {
        if (probe.start === undefined) return;
        probe.changed = performance.now();
        const count = ++probe.changes;
        presented(time => {
            probe.first ??= time - probe.start;
            probe.last = time - probe.start;
            if (count === probe.changes) probe.whole?.();
        });
    };
    const everything = {subtree: true, childList: true, characterData: true, attributes: true};
    const bars = plot.querySelector('.main-svg').parentElement;
    new MutationObserver(note).observe(bars, everything);
    new MutationObserver(note).observe(line, everything);
    probe.arm = () => {
        Object.assign(probe, {start: undefined, first: undefined, last: 0, changes: 0});
        probe.shown = new Promise(resolve => {
            probe.whole = () => resolve(true);
            setTimeout(() => resolve(probe.changes > 0), STILL_MS);
        });
    };
    probe.settle = quiet => new Promise(resolve => {
        const look = () => performance.now() - probe.changed > quiet
            ? resolve({first: probe.first, last: probe.last}) : setTimeout(look, quiet / 4);
        probe.shown.then(look);
    });
}"""


@dataclass(frozen=True)
class SliderLatency:
    """The moves of one slider, in ms: `whole` to the last changed pixels of a move, `first` to the first ones."""

    notebook: str
    slider: str
    keys: list[str]
    whole: list[float]
    first: list[float]

    @property
    def median(self) -> float:
        """Median over the moves, in ms."""
        return statistics.median(self.whole)

    @property
    def worst(self) -> float:
        """The slowest move, in ms."""
        return max(self.whole)


def measure(desk: Desk, slider: str, quiet_ms: int) -> SliderLatency:
    """Twenty moves of one slider that change something, each begun when the page has been still for `quiet_ms`."""
    handle = desk.slider(CELL, slider)
    handle.focus()
    start, steps = handle.get_attribute("aria-valuenow"), cycle(STEPS)
    keys: list[str] = []
    found: list[dict[str, float]] = []
    while len(found) < MOVES:
        if len(keys) > MOST_MOVES:
            raise RuntimeError(
                f"slider {slider} of {desk.name}: only {len(found)} of {len(keys)} moves changed anything"
            )
        keys.append(moving(handle, next(steps)))
        before = b"" if found else picture(desk)
        desk.page.evaluate("latencyProbe.arm()")
        handle.press(keys[-1])
        if not desk.page.evaluate("latencyProbe.shown"):
            continue
        shown = b"" if found else picture(desk)
        found.append(desk.page.evaluate(f"latencyProbe.settle({quiet_ms})"))
        if len(found) == 1 and (shown == before or shown != picture(desk)):
            raise RuntimeError(f"slider {slider} of {desk.name}: the screen had not changed when the page said so")
    restore(desk, handle, float(start or 0), quiet_ms)
    return SliderLatency(desk.name, slider, keys, [f["last"] for f in found], [f["first"] for f in found])


def restore(desk: Desk, handle: Locator, value: float, quiet_ms: int) -> None:
    """Back to where the slider was: the next one is measured in the notebook's own state."""
    for _ in range(MOST_MOVES):
        now = float(handle.get_attribute("aria-valuenow") or 0)
        if now == value:
            break
        handle.press("ArrowRight" if now < value else "ArrowLeft")
    desk.page.wait_for_timeout(quiet_ms)


def moving(handle: Locator, step: str) -> str:
    """The key of that step, or the opposite one where the slider is at its end."""
    low, now, high = (float(handle.get_attribute(f"aria-value{end}") or 0) for end in ("min", "now", "max"))
    stuck = now >= high if step in ("ArrowRight", "End") else now <= low
    return OPPOSITE[step] if stuck else step


def picture(desk: Desk) -> bytes:
    """What the screen shows of the explorer's figure and text."""
    parts = (desk.cell(CELL).locator(part).first for part in (".js-plotly-plot", ".widget-html"))
    return b"".join(part.screenshot(animations="allow", caret="initial") for part in parts)


def measure_notebook(path: Path, quiet_ms: int) -> list[SliderLatency]:
    """Every slider of a notebook's explorer."""
    with tempfile.TemporaryDirectory(prefix="estream-latency-") as folder, open_notebook(path, Path(folder)) as desk:
        desk.run_all()
        explorer = desk.cell(CELL)
        explorer.evaluate("cell => cell.scrollIntoView({block: 'center'})")
        explorer.locator(".js-plotly-plot .main-svg").first.wait_for()
        desk.page.wait_for_timeout(quiet_ms)
        explorer.evaluate(PROBE.replace("STILL_MS", str(STILL_MS)))
        sliders = explorer.locator(".widget-slider .widget-label").all_inner_texts()
        found = [measure(desk, slider, quiet_ms) for slider in sliders]
        assert desk.watch.errors == [], desk.watch.errors
        return found


def main(arguments: list[str]) -> int:
    """Print the table; the status is 1 where a slider is too slow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(NOTEBOOKS.glob(LESSONS)))
    parser.add_argument("--json", type=Path, help="also write every move to this file")
    parser.add_argument("--quiet-ms", type=int, default=400, help="how long the page is still between moves")
    given = parser.parse_args(arguments)
    before = os.getloadavg()[0]
    rows = [row for path in given.notebooks for row in measure_notebook(path, given.quiet_ms)]
    load = {"before": before, "after": os.getloadavg()[0], "processors": os.cpu_count()}
    print(f"{processor()}, {load['processors']} processors, load {before:.2f} before, {load['after']:.2f} after")
    print(f"{'notebook':<28}{'slider':<18}{'median ms':>10}{'worst ms':>10}{'first change':>14}")
    for row in rows:
        first = statistics.median(row.first)
        print(f"{row.notebook:<28}{row.slider:<18}{row.median:>10.0f}{row.worst:>10.0f}{first:>14.0f}")
    if given.json:
        summary = [{**asdict(row), "median": row.median, "worst": row.worst} for row in rows]
        given.json.write_text(json.dumps({"machine": processor(), "load": load, "sliders": summary}, indent=1))
    return int(any(row.median > MEDIAN_MS or row.worst > WORST_MS for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
