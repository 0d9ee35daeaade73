"""The error of every row against float64 on its own weights, for several kinds of activations."""

from collections.abc import Callable, Collection, Sequence

from estream_lab.bench.inputs import Inputs
from estream_lab.bench.reference import Error, reference, relative_error
from estream_lab.bench.rows import Job, Prepared, Row
from estream_lab.errors import EStreamError

WRONG, WRONG_TOKEN = 0.2, 0.4
"""Relative errors, of all tokens and of a single one, that no rounding explains: such a row computes something else,
and its time means nothing."""


def errors(
    rows: Sequence[tuple[Row, Prepared]], job: Job, kinds: Sequence[str], seed: int, done: Callable[[], None]
) -> list[dict[str, Error]]:
    """Errors by kind of activations, of each row; its calls also warm the rows up.

    `done` is called after every row.

    Raises:
        EStreamError: a row's output is not this layer's.
    """
    weights, found = job.weights, [dict[str, Error]() for _ in rows]
    inputs = [
        Inputs.draw(weights.shape, job.tokens, kind, seed + i, job.folder / f"kind{i}.inputs")
        for i, kind in enumerate(kinds)
    ]
    shared = [reference(drawn, weights.dequantised, weights.distinct) for drawn in inputs]
    own = {}  # by implementation and quantisation: rows that differ in their layout only share their weights
    for (row, prepared), errors_of_row in zip(rows, found, strict=True):
        exact = shared
        if prepared.own_weights:
            key = row.implementation, row.quant
            if key not in own:
                read = row.weights()
                own[key] = [reference(drawn, read, weights.distinct) for drawn in inputs]
                del read  # a file without a name: its bytes are free again before the next one is written
            exact = own[key]
        for kind, drawn, y in zip(kinds, inputs, exact, strict=True):
            errors_of_row[kind] = relative_error(row.output(drawn), y)
        _check(row, errors_of_row.values())
        done()
    return found


def _check(row: Row, errors_of_row: Collection[Error]) -> None:
    """That a row computes this layer, and every token of it."""
    whole, token = (max(getattr(error, name) for error in errors_of_row) for name in ("whole", "token"))
    if not (whole <= WRONG and token <= WRONG_TOKEN):
        raise EStreamError(
            f"{row.implementation} {row.name} is off by {whole:.2g} of the layer's output, and by {token:.2g} of a "
            "token's: it computes something else, so leave it out with --peer, and please report it"
        )
