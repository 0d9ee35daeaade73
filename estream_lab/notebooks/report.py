"""What a run of notebooks gave."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NotebookRun:
    """One notebook's run: `status` is `ok` or `failed`, `output_bytes` the size of the executed file.

    `error` is the sentence that tells a failure, None where it ran to its end.
    """

    name: str
    status: str
    seconds: float
    output_bytes: int
    records: dict[str, Any]
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; `error` only where there is one."""
        values: dict[str, Any] = {
            "name": self.name,
            "status": self.status,
            "seconds": self.seconds,
            "output_bytes": self.output_bytes,
            "records": self.records,
        }
        return values if self.error is None else {**values, "error": self.error}


@dataclass(frozen=True, slots=True)
class Report:
    """The runs, in the order given."""

    notebooks: tuple[NotebookRun, ...]

    def to_json(self) -> dict[str, Any]:
        """`{"notebooks": [{name, status, seconds, output_bytes, records}, ...]}`."""
        return {"notebooks": [item.to_json() for item in self.notebooks]}
