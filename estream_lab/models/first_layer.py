"""What the first layer's router and experts are given: it takes no expert to compute, so it can be looked at alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels import host
from estream_lab.models.layers import Decoder, Read
from estream_lab.models.spec import ModelSpec


@dataclass(frozen=True)
class FirstLayer:
    """Layer 0 of a prompt, up to its experts.

    Attributes:
        normed: float32 (T, H), X: the rows that experts are given.
        logits: float32 (T, E), the router's.
    """

    normed: NDArray[np.float32]
    logits: NDArray[np.float32]

    @classmethod
    def of(cls, spec: ModelSpec, read: Read, tokens: NDArray[np.integer]) -> "FirstLayer":
        """Embedding and attention of layer 0 on token ids (T,), bit for bit as a prefill computes them.

        Args:
            spec: the model. read: canonical name → dense weight, as the store holds it (`Store.dense.opened`).
            tokens: (T,) ids.

        Raises:
            EStreamError: ids outside the vocabulary, more tokens than the context, or what `read` raises.
        """
        decoder = Decoder(spec, read)
        work = decoder.new_workspace(len(tokens), host.threads())
        decoder.embed(tokens, work.x)
        decoder.attend(0, decoder.new_cache(len(tokens)), 0, work)
        return cls(work.normed, work.logits)
