"""Runs notebooks through papermill: parameters checked first, this environment's kernel, records read back."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from estream_lab.errors import EStreamError
from estream_lab.notebooks.outputs import strip_widgets
from estream_lab.notebooks.parameters import Value, check_values, declared, tags_of
from estream_lab.notebooks.record import records_of
from estream_lab.notebooks.report import NotebookRun, Report

if TYPE_CHECKING:
    import nbformat  # takes seconds to load: functions below do so when they are called


def run(
    paths: Sequence[Path | str],
    parameters: Mapping[str, Value] | None = None,
    out_dir: Path | str = "out/notebooks",
    *,
    keep_going: bool = False,
    progress: bool = False,
) -> Report:
    """Run each notebook in its own folder; write the executed one, without widget state, to `out_dir/NAME.ipynb`.

    `parameters` must exist in every notebook, with the declared types (`parameters.check_values`); all are checked
    before the first cell runs. A failed cell raises `EStreamError` with the cell's number, its line and the exception;
    with `keep_going` the run is reported as `failed` and the next notebook follows.
    """
    notebooks = [Path(path) for path in paths]
    names = [path.stem for path in notebooks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise EStreamError(f"Two notebooks are named {twice[0]}; run them into folders of their own.")
    checked = [(path, *_checked(path, parameters or {})) for path in notebooks]
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    runs = []
    for path, notebook, values in checked:
        runs.append(_run_one(path, notebook, values, out, progress))
        if runs[-1].error and not keep_going:
            raise EStreamError(runs[-1].error)
    return Report(tuple(runs))


def _checked(path: Path, parameters: Mapping[str, Value]) -> tuple[nbformat.NotebookNode, dict[str, Value]]:
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise EStreamError(f"Cannot read the notebook {path}: {error.strerror}; check the path.") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, nbformat.ValidationError) as error:
        raise EStreamError(f"{path} is not a notebook; give an .ipynb file.") from error
    return notebook, check_values(declared(notebook, path.name), parameters, path.name)


def _run_one(
    path: Path, notebook: nbformat.NotebookNode, values: dict[str, Value], out: Path, progress: bool
) -> NotebookRun:
    import nbformat

    target = out / path.name
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(
        prefix="estream-notebook-"
    ) as folder:  # papermill formats braces in paths: none here
        error = _execute(path, notebook, values, Path(folder), progress)
        executed = Path(folder) / "executed.ipynb"
        result = nbformat.read(executed, as_version=4) if executed.exists() else notebook  # type: ignore[no-untyped-call]
    seconds = time.perf_counter() - start
    strip_widgets(result, path.name)
    size = _write(result, target)
    records = records_of(result, path.name)
    if error is None:
        return NotebookRun(path.stem, "ok", seconds, size, records)
    return NotebookRun(path.stem, "failed", seconds, size, records, f"{error} See {target}.")


def _execute(
    path: Path, notebook: nbformat.NotebookNode, values: dict[str, Value], folder: Path, progress: bool
) -> str | None:
    """Run `notebook` as if opened at `path`, into `folder`; the sentence that tells the failure, or None."""
    import nbformat
    from nbclient.exceptions import DeadKernelError
    from papermill import execute_notebook  # papermill takes a second to load
    from papermill.exceptions import PapermillExecutionError

    from estream_lab.notebooks.kernel import KERNEL_NAME, ThisPythonKernelManager

    nbformat.write(notebook, folder / "given.ipynb")  # type: ignore[no-untyped-call]
    try:
        done = execute_notebook(
            str(folder / "given.ipynb"),
            str(folder / "executed.ipynb"),
            parameters=values,
            kernel_name=KERNEL_NAME,
            language="python",
            kernel_manager_class=ThisPythonKernelManager,
            store_widget_state=False,
            cwd=str(path.parent.resolve()),
            progress_bar=progress,
        )
    except PapermillExecutionError as error:
        number = error.cell_index + 1 - _injected_before(notebook, error.cell_index, values)
        return _sentence(path.name, number, error.source, error.ename, error.evalue, error.traceback)
    except DeadKernelError:
        return f"{path.name}: its kernel died (out of memory, perhaps)."
    for index, cell in enumerate(done.cells):
        if cell.cell_type == "code" and cell.source.strip() and cell.execution_count is None:
            return (
                f"{path.name} stopped before cell {index + 1 - _injected_before(notebook, index, values)} (sys.exit?)."
            )
    return None


def _injected_before(notebook: nbformat.NotebookNode, index: int, values: dict[str, Value]) -> int:
    """1 where papermill's own cell of parameters lies before cell `index` of the executed notebook, else 0."""
    tagged = [i for i, cell in enumerate(notebook.cells) if "parameters" in tags_of(cell)]
    return int(bool(values) and index > tagged[0])


def _sentence(name: str, number: int, source: str, exception: str, value: str, traceback: Sequence[str]) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(traceback))
    found = re.search(r"Cell In\s?\[\d+\], line (\d+)", plain)
    where = f"{name}, cell {number}"
    if found:
        line = int(found[1])
        where += f", line {line} (`{source.splitlines()[line - 1].strip()}`)"
    reason = value.strip().splitlines()[0] if value.strip() else "no message"
    return f"{where}: {exception}: {reason}."


def _write(notebook: nbformat.NotebookNode, target: Path) -> int:
    """Write whole or not at all; the size in bytes."""
    import nbformat

    data = nbformat.writes(notebook).encode()  # type: ignore[no-untyped-call]
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return len(data)
