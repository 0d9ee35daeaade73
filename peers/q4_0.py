"""Q4_0 blocks as peers need them that don't read the format."""

import numpy as np


def dequantise(blocks):
    """Weights of Q4_0 blocks (bytes), float32, 32 to a block: (q - 8) * d."""
    pairs = np.asarray(blocks).reshape(-1, 18)
    d = np.ascontiguousarray(pairs[:, :2]).view("<f2").astype(np.float32)  # (blocks, 1)
    nibbles = pairs[:, 2:]
    q = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.int8) - np.int8(8)  # element j and j + 16
    return (q * d).reshape(-1)
