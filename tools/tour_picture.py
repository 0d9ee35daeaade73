"""Makes the README's picture: `python -m tools.tour_picture docs/tour.png`.

Runs the tour in a real JupyterLab, in a copy beside the shipped data, and takes its bank timeline as a reader sees it.
Needs the `dev` extra and an installed Chromium.
"""

import sys
import tempfile
from pathlib import Path

from tests.ui.desk import NOTEBOOKS, open_notebook

LIMIT_BYTES = 400_000


def main(target: Path) -> int:
    """Write the picture to `target`; the status is 1 where it is too large for a README."""
    with (
        tempfile.TemporaryDirectory(prefix="estream-picture-") as folder,
        open_notebook(NOTEBOOKS / "00_tour.ipynb", Path(folder)) as desk,
    ):
        desk.run_all()
        desk.page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
        desk.cell("timeline").evaluate("cell => cell.scrollIntoView({block: 'center'})")
        desk.cell("timeline").locator(".legend").first.wait_for()
        desk.page.screenshot(path=target)
    size = target.stat().st_size
    print(f"{target}: {size} bytes")
    return int(size > LIMIT_BYTES)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
