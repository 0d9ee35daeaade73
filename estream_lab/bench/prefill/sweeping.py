"""llama.cpp's fastest form: every form of the sweep in turn, a model at a time, and the best few go into the final."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from estream_lab.bench import rounds
from estream_lab.bench.prefill.forms import Form
from estream_lab.bench.prefill.llama import Files, LlamaRow
from estream_lab.bench.prefill.rows import Prompt
from estream_lab.bench.session import Session, Unsupported

FINALISTS = 3
"""Forms beside the default that take turns with ours: one call a form tells only roughly which is the fastest."""


@dataclass(frozen=True)
class Swept:
    """What the sweep found.

    Attributes:
        seconds: one timed call of every form that there is.
        notes: of those, what `LlamaRow.prepare` told.
        refused: forms that this build or machine doesn't have, with the reason.
    """

    seconds: dict[Form, float]
    notes: dict[Form, dict[str, Any]]
    refused: dict[Form, str]

    def finalists(self) -> list[Form]:
        """The default, and the fastest forms beside it."""
        default = [form for form in self.seconds if form.default]
        others = sorted((form for form in self.seconds if not form.default), key=lambda form: self.seconds[form])
        return [*default, *others[:FINALISTS]]

    def to_json(self) -> list[dict[str, Any]]:
        """Every form's time."""
        return [
            {"name": form.name, "quant": form.quant, "seconds": seconds, **self.notes[form]}
            for form, seconds in self.seconds.items()
        ]


def swept(
    session: Session,
    files: Files,
    forms: Sequence[Form],
    threads: int,
    draw: Callable[[int], Prompt],
    folder: Path,
    progress: Callable[[str, int, int], None],
) -> Swept:
    """Time every form once.

    Args:
        session: of the peer.
        files: of the model.
        forms: those of one model lie together.
        threads: of every form.
        draw: a prompt by number.
        folder: for what the peer writes.
        progress: is told of every form.
    """
    found = Swept({}, {}, {})
    done = 0
    for (quant, _), group in groupby(forms, lambda form: (form.quant, form.repack is not False)):
        rows: list[LlamaRow] = []
        for form in group:
            progress(f"llama.cpp: sweep, {quant}", done, len(forms))
            try:
                row = LlamaRow(session, form, files.of(form), folder)
                first = draw(len(forms) + done)
                found.notes[form] = row.prepare(len(first.ids), threads)
                if not rows:
                    row.run(first)  # untimed: it takes the pages of the model
                rows.append(row)  # kept until the last of its model has run: the model is loaded once
                time.sleep(rounds.SETTLE_SECONDS)
                found.seconds[form] = row.run(draw(done))
            except Unsupported as reason:
                found.refused[form] = str(reason)
            done += 1
        for row in rows:
            row.release()
    progress("llama.cpp: sweep", done, len(forms))
    return found
