"""What a bench holds in memory and on disk at once, known before anything is made."""

from collections.abc import Sequence

from estream_lab.bench.rows import Row
from estream_lab.bench.shapes import LayerShape
from estream_lab.bench.weights import DISTINCT
from estream_lab.errors import EStreamError
from estream_lab.machine import available_memory_bytes

_DRAWN = 20  # bytes of a weight of one projection while it is drawn and quantised: float32, integers, temporaries


def peak_bytes(rows: Sequence[Row], shape: LayerShape, tokens: int) -> int:
    """Memory of all processes at most: all rows hold their weights and every route's intermediates, because they take
    turns; while one is prepared, one projection of all its experts, and its distinct ones in float32, are there twice.
    """
    projection = shape.hidden * shape.ffn
    distinct = min(DISTINCT, shape.experts)
    intermediates = 4 * tokens * shape.top_k * (3 * shape.ffn + 2 * shape.hidden)
    held = sum(row.bytes_per_weight * row.copies * shape.weights + intermediates for row in rows)
    preparing = max(row.bytes_per_weight for row in rows) * projection * shape.experts + 4 * 3 * projection * distinct
    return int(max(held + preparing, _DRAWN * projection))


def file_bytes(shape: LayerShape, tokens: int, kinds: int) -> int:
    """Files at most: the distinct experts in float32, in Q4_0 and as a row returns its own, and calls' inputs and
    outputs for `kinds` of activations and a round.
    """
    weights = min(DISTINCT, shape.experts) * 3 * shape.hidden * shape.ffn
    call = 4 * tokens * (shape.hidden + 2 * shape.top_k)
    return int((4 + 18 / 32 + 4) * weights) + (kinds + 2) * call


def check(rows: Sequence[Row], shapes: Sequence[LayerShape], tokens: Sequence[int]) -> int:
    """The largest `peak_bytes`.

    Raises:
        EStreamError: it is more than there is.
    """
    needed, shape = max(((peak_bytes(rows, each, max(tokens)), each) for each in shapes), key=lambda found: found[0])
    available = available_memory_bytes()
    if needed > available:
        raise EStreamError(
            f"{len(rows)} rows of {shape.name} with {max(tokens)} tokens need {needed / 2**30:.1f} GiB of memory at "
            f"their peak, and {available / 2**30:.1f} GiB are free: choose another --shape, fewer --tokens or fewer "
            "peers"
        )
    return needed
