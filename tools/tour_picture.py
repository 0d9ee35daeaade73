"""Makes the README's picture: `python -m tools.tour_picture docs/tour.png`.

Runs the tour in a real JupyterLab, in a copy beside the shipped data, and takes its bank timeline as a reader sees it.
Needs the `dev` extra and an installed Chromium.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.ui.lab import Lab
from tests.ui.test_tour import ROOT, TOUR, cell, run_all
from tests.ui.watch import watched_browser

LIMIT_BYTES = 400_000


def main(target: Path) -> int:
    """Write the picture to `target`; the status is 1 where it is too large for a README."""
    with tempfile.TemporaryDirectory(prefix="estream-picture-") as folder:
        desk = Path(folder) / "desk"
        (desk / "notebooks").mkdir(parents=True)
        shutil.copy(ROOT / "notebooks" / TOUR, desk / "notebooks" / TOUR)
        (desk / "data").symlink_to(ROOT / "data")
        with Lab(desk, Path(folder) / "lab") as lab, watched_browser(Path(folder) / "profile") as (_, page, _watch):
            page.goto(lab.page(f"notebooks/{TOUR}"))
            page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=180_000)
            run_all(page)
            page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
            cell(page, "timeline").evaluate("cell => cell.scrollIntoView({block: 'center'})")
            cell(page, "timeline").locator(".legend").first.wait_for()
            page.screenshot(path=target)
    size = target.stat().st_size
    print(f"{target}: {size} bytes")
    return int(size > LIMIT_BYTES)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
