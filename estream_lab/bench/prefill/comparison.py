"""Whole prefills of one model: ours and llama.cpp's, in one process-interleaved run."""

import os
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from estream_lab import __version__
from estream_lab.bench import environment
from estream_lab.bench.prefill.agreement import agree, relative_error
from estream_lab.bench.prefill.forms import SAME_WEIGHTS, Form, sweep
from estream_lab.bench.prefill.llama import Files, LlamaRow, llama
from estream_lab.bench.prefill.rows import FIGURES, Prompt, Row, of_logits, our_rows
from estream_lab.bench.prefill.sizes import check_memory
from estream_lab.bench.prefill.sweeping import Swept, swept
from estream_lab.bench.rounds import interleave
from estream_lab.bench.session import BETWEEN_TURNS, Session
from estream_lab.errors import EStreamError
from estream_lab.machine import available_cpus, processor
from estream_lab.streaming import Store

Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and of how much."""

LARGEST_ERROR = {True: 0.1, False: 1.0}
"""Relative error of a row's last logits, against ours in float32 arithmetic on the Q4_0 experts, beyond which it
doesn't run this model. Where every weight is ours (True), only rounded activations differ. Elsewhere four-bit dense
weights, and routes that flip with them, cost much of random logits; those of another model are off by 1.4."""

_SEED = 11  # of prompts: the errors' own, those of rounds and of the sweep count on from it


def compare_prefill(
    store: Store,
    tokens: int,
    names: Sequence[str],
    *,
    threads: int,
    rounds: int,
    folder: Path,
    files: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Our rows, and with the peer llama.cpp's default and the fastest forms of its sweep, in turn.

    Args:
        store: of the model.
        tokens: T of a prompt.
        names: of peers, see `peers.PREFILL_PEERS`.
        threads: of every row.
        rounds: runs of every row.
        folder: for files of this run alone.
        files: where the peer's model files are made: one with float32 dense weights, and one of every quantisation.
        progress: is told of every run.

    Returns:
        A JSON object: the machine, versions, how the peer was built, its sweep, and the rows.

    Raises:
        EStreamError: the peer is missing or fails, a row runs another model, or memory doesn't suffice.
    """
    peak = check_memory(store.spec, peer=bool(names), dense_quant=store.dense_quant)
    load = os.getloadavg()[0]
    found: dict[str, Any] = {"peer_build": {}, "agreement": {}, "sweep": [], "unsupported": []}
    rows: list[Row] = [*our_rows(store)]
    processes: list[int] = []

    def draw(number: int) -> Prompt:
        return Prompt.draw(tokens, store.spec.vocab, _SEED + number, folder / "prompt")

    with ExitStack() as stack:
        if names:
            session = stack.enter_context(llama())
            processes.append(session.process)
            found["peer_build"] = {session.name: session.ask("offer")["build"]}
            found["agreement"] = {session.name: agree(session, folder, threads)}
            models = Files(session, store, files, threads)
            best = swept(session, models, sweep(), threads, lambda i: draw(10_000 + i), folder, progress)
            found |= _told(session, best)
            rows += [LlamaRow(session, form, models.of(form), folder) for form in (*best.finalists(), SAME_WEIGHTS)]
        found |= _final(rows, tokens, threads, rounds, draw, processes, progress)
    return {
        "machine": processor(),
        "kind": "measured",
        "versions": {"estream-lab": __version__, "numpy": np.__version__, "numba": numba.__version__},
        "model": store.spec.to_json(),
        "tokens": tokens,
        "threads": threads,
        "processors": available_cpus(),
        "rounds": rounds,
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "environment": environment.told(),
        "between_turns": BETWEEN_TURNS,
        "memory_bytes": peak,
        **found,
    }


def _told(session: Session, best: Swept) -> dict[str, Any]:
    refused: dict[Form, str] = best.refused
    return {
        "sweep": best.to_json(),
        "unsupported": [
            {"implementation": session.name, "name": form.name, "reason": reason} for form, reason in refused.items()
        ],
    }


def _final(
    rows: Sequence[Row],
    tokens: int,
    threads: int,
    rounds: int,
    draw: Callable[[int], Prompt],
    processes: Sequence[int],
    progress: Progress,
) -> dict[str, Any]:
    """Every row in every round, on prompts that are fresh in each; first, untimed, the logits of one prompt."""
    notes, logits = [], []
    for i, row in enumerate(rows):
        progress("preparing", i, len(rows))
        notes.append(row.prepare(tokens, threads))
        logits.append(row.logits(draw(0)))
    errors = _errors(rows, notes, logits)
    done = count(1)
    timed = interleave(
        [row.run for row in rows], rounds, lambda turn: draw(1 + turn),
        lambda: progress("rounds", next(done), rounds * len(rows)), processes=processes,
    )  # fmt: skip
    figures = [row.figures() | of_logits(found) for row, found in zip(rows, logits, strict=True)]
    for row in rows:
        row.release()
    described = [_describe(*of, tokens) for of in zip(rows, figures, notes, timed.seconds, errors, strict=True)]
    return {"rows": standing(described), "other_load": timed.other_load}


def _errors(rows: Sequence[Row], notes: Sequence[dict[str, Any]], logits: Sequence[NDArray[np.float32]]) -> list[float]:
    """Of every row's logits, against our float32 row's.

    Raises:
        EStreamError: a row is so far off that it runs another model.
    """
    ours = next(i for i, row in enumerate(rows) if row.name == "host-f32 resident")
    reference, dense = logits[ours], set(notes[ours]["dense"].values())
    errors = [relative_error(found, reference) for found in logits]
    for row, said, error in zip(rows, notes, errors, strict=True):
        same_weights = said["experts"] == "q4_0" and set(said["dense"].values()) == dense
        if not error <= LARGEST_ERROR[same_weights]:
            raise EStreamError(
                f"{row.implementation} {row.name} is off by {error:.2g} in the last logits: it runs another model, "
                "please report it"
            )
    return errors


def _describe(
    row: Row, figures: dict[str, Any], notes: dict[str, Any], seconds: list[float], error: float, tokens: int
) -> dict[str, Any]:
    """One row's figures; `seconds` and `tokens_per_second` are of the median round."""
    middle = statistics.median(seconds)
    return {
        **dict.fromkeys(FIGURES),
        **figures,
        "implementation": row.implementation,
        "name": row.name,
        "default": row.default,
        "seconds": middle,
        "seconds_rounds": seconds,
        "tokens_per_second": tokens / middle,
        "relative_error": error,
        **notes,
    }


def standing(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their tokens/s in parts of others'; None where the other isn't there.

    `of_default` = a row's tokens/s / those of llama.cpp's default; `of_fastest` = / those of its fastest form.
    """
    theirs = [row for row in rows if row["implementation"] != "estream"]
    default = next((row for row in theirs if row["default"]), None)
    fastest = min(theirs, key=lambda row: float(row["seconds"]), default=None)
    roles = (("of_default", default), ("of_fastest", fastest))
    return [
        row
        | {"fastest": row is fastest}
        | {key: other["seconds"] / row["seconds"] if other else None for key, other in roles}
        for row in rows
    ]
