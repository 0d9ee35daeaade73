"""The exact kernels beside their twin in plain NumPy: `python -m tools.exact_speed [--rounds N]`.

One expert of OLMoE's hidden size and an eighth of its FFN size, with the 128 rows that an expert of OLMoE has on
average of 1,024 tokens. Kernels and twin take turns on fresh rows; medians over the rounds, and the ratio for each
profile.
"""

import argparse
import statistics
import time

import numpy as np

from estream_lab.cli.options import positive
from estream_lab.kernels.exact import PROFILES, ExactOperator, twin
from estream_lab.kernels.host import threads
from estream_lab.kernels.layout import pack_q4_32x32
from estream_lab.machine import processor
from tools.command import ended

HIDDEN, FFN, ROWS = 2048, 128, 128


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=positive, default=3)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(0)
    weights = [
        (rng.integers(0, 16, (n, k)).astype(np.uint8), (rng.standard_normal((n, k // 32)) / 99).astype(np.float16))
        for n, k in ((FFN, HIDDEN), (FFN, HIDDEN), (HIDDEN, FFN))
    ]
    gate, up, down = weights
    packed = [pack_q4_32x32(q, d) for q, d in weights]
    first, second, third = (np.array([sum(map(len, packed[:i]))]) for i in range(3))
    arena = np.concatenate(packed)
    routes = (np.array([0, ROWS]), np.arange(ROWS, dtype=np.int32), np.ones(ROWS, np.float32))
    print(f"measured on {processor()}, {threads()} threads for the kernels, one for NumPy; {rounds} rounds in turns")
    print(f"one expert of {HIDDEN} x {FFN}, {ROWS} rows")
    print("| profile | kernels, ms | twin, ms | twin / kernels | same bits |\n|---|---:|---:|---:|---|")
    for name in PROFILES:
        operator = ExactOperator(HIDDEN, FFN, ROWS, name)
        ours, theirs, same = [], [], True
        for _ in range(rounds + 1):  # the first compiles
            x = rng.standard_normal((ROWS, HIDDEN)).astype(np.float32)
            y, expected = np.zeros_like(x), np.zeros_like(x)
            start = time.perf_counter()
            operator(x, y, *routes, arena, first, second, third)
            middle = time.perf_counter()
            twin.expert_bank(x, expected, *routes, [(gate, up, down)], name)
            ours.append(middle - start)
            theirs.append(time.perf_counter() - middle)
            same = same and y.tobytes() == expected.tobytes()
        fast, slow = statistics.median(ours[1:]), statistics.median(theirs[1:])
        print(f"| {name} | {fast * 1e3:.1f} | {slow * 1e3:.0f} | {slow / fast:.0f} | {'yes' if same else 'NO'} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(ended(main))
