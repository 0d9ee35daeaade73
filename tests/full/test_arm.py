"""The NEON variant and the portable one, run instruction by instruction as an ARM processor would, give NumPy's bits.

Emulated by qemu-user, on processors with and without the dot product.
"""

import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.kernels.int8 import reference
from estream_lab.kernels.int8.dot import DOTS
from estream_lab.kernels.int8.q8 import pack_q8_32x32, quantise_q8_0
from estream_lab.kernels.layout import pack_q4_32x32
from tests.full import arm


def activations(rng: np.random.Generator, rows: int, blocks: int) -> NDArray[np.float32]:
    """Rows of every magnitude; one block is zero, one too small to be quantised."""
    x = rng.standard_normal((rows, 32 * blocks)) * 10.0 ** rng.integers(-20, 20, (rows, 1))
    x[0, :32], x[0, 32:64] = 0, 1e-38
    return x.astype(np.float32)


def weights(rng: np.random.Generator, source: str, blocks: int) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """(32, K) integers and scales, subnormal and zero ones too."""
    if source == "octets":
        return quantise_q8_0(rng.standard_normal((32, 32 * blocks)).astype(np.float32))
    d = (rng.standard_normal((32, blocks)) * 10.0 ** rng.integers(-7, 3, (32, blocks))).astype(np.float16)
    d[:3, 0] = [6e-8, -6e-8, 0]
    return rng.integers(-8, 8, (32, 32 * blocks), dtype=np.int8), d


@pytest.mark.parametrize("source", arm.SOURCES)
@pytest.mark.parametrize("variant", arm.PROCESSORS)
def test_products_on_arm_equal_numpy(variant: str, source: str, tmp_path: Path) -> None:
    program = arm.build(variant, source, tmp_path)
    rng = np.random.default_rng(7)
    for rows in range(1, DOTS[variant].rows + 1):
        for blocks in (2, 3, 12):
            x, (w, d) = activations(rng, rows, blocks), weights(rng, source, blocks)
            q, scale = reference.quantise(x)
            packed = pack_q8_32x32(w, d) if source == "octets" else pack_q4_32x32((w + 8).astype(np.uint8), d)
            records, sums = arm.run(program, variant, x, packed, np.zeros((rows, 32), np.float32))
            assert records[..., :32].tobytes() == q.reshape(rows, blocks, 32).swapaxes(0, 1).tobytes()
            assert records[..., 36:].tobytes() == np.ascontiguousarray(scale.T).tobytes()
            assert sums.tobytes() == reference.linear_q8(q, scale, (w, d)).tobytes()
            twice = (np.tile(a, 2) for a in (q, scale))
            expected = reference.linear_q8(*twice, (np.tile(w, 2), np.tile(d, 2)))
            assert arm.run(program, variant, x, packed, sums)[1].tobytes() == expected.tobytes()


def test_a_processor_without_the_dot_product_refuses_its_variant(tmp_path: Path) -> None:
    """An emulator that ran every instruction would show nothing about the choice of variants."""
    program = arm.build("neon-dot", "packed", tmp_path)
    x, w = np.ones((1, 64), np.float32), np.zeros(2 * 576, np.uint8)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        arm.run(program, "portable", x, w, np.zeros((1, 32), np.float32))
    assert failed.value.returncode == -signal.SIGILL
