import nbformat
import pytest

from estream_lab.errors import EStreamError
from estream_lab.notebooks import RECORD_MIME, records_of, strip_widgets

from .make import notebook

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def executed(**data: object) -> nbformat.NotebookNode:
    made = notebook("show()")
    made.metadata["widgets"] = {STATE: {"state": {"1": "x" * 1000}}}
    made.metadata["papermill"] = {"input_path": "/somewhere"}
    bundle = {key.replace("_", "/"): value for key, value in data.items()}
    made.cells[-1].outputs = [nbformat.v4.new_output("display_data", data=nbformat.from_dict(bundle))]
    return made


def test_state_and_views_go_and_the_rest_stays() -> None:
    made = executed(text_plain="figure")
    made.cells[-1].outputs[0].data[VIEW] = {"model_id": "1"}
    strip_widgets(made, "lesson")
    assert made.metadata == {}
    assert made.cells[-1].outputs[0].data == {"text/plain": "figure"}
    nbformat.validate(made)


def test_a_bare_view_leaves_a_line_of_text() -> None:
    made = executed()
    made.cells[-1].outputs[0].data[VIEW] = {"model_id": "1"}
    strip_widgets(made, "lesson")
    assert made.cells[-1].outputs[0].data == {"text/plain": "(a live widget)"}


def test_state_hidden_in_html_is_refused_with_its_cell() -> None:
    made = executed(text_html=f'<script type="{STATE}">{{}}</script>')
    with pytest.raises(EStreamError, match="lesson, cell 3"):
        strip_widgets(made, "lesson")


def test_a_name_recorded_twice_is_refused() -> None:
    made = notebook("a", "b")
    for cell in made.cells[-2:]:
        data = nbformat.from_dict({RECORD_MIME: {"name": "idle", "value": 1}})
        cell.outputs = [nbformat.v4.new_output("display_data", data=data)]
    with pytest.raises(EStreamError, match="records idle twice"):
        records_of(made, "lesson")
