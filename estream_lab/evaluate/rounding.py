"""How this computer rounds: what figures that rest on NumPy's functions are the same for, to the last bit."""

import hashlib

import numpy as np


def rounding_digest() -> str:
    """Names how exp, log, sin and cos are rounded here, by a digest of their values at fixed numbers.

    All else that the regression computes is the same chain of roundings on every computer (`kernels.host`,
    `kernels.exact`): no BLAS, which chooses its own. NumPy's functions aren't: router, rotary tables, float64 SiLU and
    the text's cost call them, and NumPy chooses their code by the processor's vector instructions.
    """
    wide = np.linspace(0.01, 40, 4001)
    digest = hashlib.blake2b(digest_size=8)
    for values in (wide, wide.astype(np.float32)):
        for made in (np.exp(-values), np.log(values), np.sin(values), np.cos(values), np.expm1(-values)):
            digest.update(made.tobytes())
    return digest.hexdigest()
