"""From final hidden states to what a request asked for."""

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels import host

BLOCK_BYTES = 1 << 20  # float64 numbers of a block of rows


def softmax_bytes(outputs: int, vocab: int) -> int:
    """What `log_softmax` takes on top of its result for n rows of V."""
    return 3 * 8 * vocab * min(outputs, _block(vocab))


def log_softmax(logits: NDArray[np.float32], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """Log-probabilities of each row, float32 (n, V), computed in float64; ``out`` may be the logits."""
    result = np.empty_like(logits) if out is None else out
    block = _block(logits.shape[1])
    for first in range(0, len(logits), block):
        wide = logits[first : first + block].astype(np.float64)
        wide -= wide.max(axis=-1, keepdims=True)
        wide -= np.log(np.exp(wide).sum(axis=-1, keepdims=True))
        result[first : first + block] = wide
    return result


def _block(vocab: int) -> int:
    return max(1, BLOCK_BYTES // (8 * vocab))


def check_finite(values: NDArray[np.float32], where: str) -> None:
    """Weights are finite, but products of huge ones need not be.

    Raises:
        EStreamError: NaN or infinity among the values of ``where``.
    """
    if not host.all_finite(values):
        raise EStreamError(
            f"{where} gives NaN or infinite values: the model's weights overflow float32, check its origin"
        )
