"""Notebook runs whose parameters are checked, in this environment's kernel, with recorded figures read back."""

from estream_lab.notebooks.outputs import strip_widgets
from estream_lab.notebooks.parameters import Parameter, check_values, declared
from estream_lab.notebooks.record import RECORD_MIME, record, records_of
from estream_lab.notebooks.report import NotebookRun, Report
from estream_lab.notebooks.run import run

__all__ = [
    "RECORD_MIME",
    "NotebookRun",
    "Parameter",
    "Report",
    "check_values",
    "declared",
    "record",
    "records_of",
    "run",
    "strip_widgets",
]
