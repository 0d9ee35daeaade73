"""A peer for tests: the real protocol of peers/serve.py around a layer in NumPy, with faults to order.

python numpy_peer.py [FAULT]     FAULT: wrong | half | slow | dies | mute | error
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "peers"))
from serve import Unsupported, serve


class NumpyPeer:
    def __init__(self, fault):
        self.fault, self.layers = fault, {}

    def offer(self):
        rows = [("plain", "q4_0", True), ("never", "q4_0", True), ("halved", "q4_0 halved", False)]
        return {
            "build": {"numpy": np.__version__, "features": "none"},
            "rows": [
                dict(zip(("name", "quant", "default", "bytes_per_weight", "copies"), (*row, 4, 1), strict=True))
                for row in rows
            ],
        }

    def prepare(self, row, layer):
        if row == "never":
            raise Unsupported("nobody has this")
        sys.stdout.write("a library's chatter\n")  # must not get between the answers
        blocks = np.memmap(layer.blocks, np.uint8, "r")
        factor = 0.5 if row == "halved" else 1
        self.layers[row] = layer, [
            [factor * self.dequantise(layer.projection(blocks, plane, expert, 18 / 32)).reshape(layer.planes[plane])
             for plane in range(3)]
            for expert in range(layer.distinct)
        ]  # fmt: skip
        return {"arithmetic": "fp32", "own_weights": row == "halved", "note": layer.threads}

    @staticmethod
    def dequantise(blocks):
        pairs = np.asarray(blocks).reshape(-1, 18)
        d = pairs[:, :2].copy().view("<f2").astype(np.float32)
        q = np.concatenate([pairs[:, 2:] & 15, pairs[:, 2:] >> 4], axis=1).astype(np.float32) - 8
        return (q * d).reshape(-1)

    def run(self, row, inputs):
        layer, experts = self.layers[row]
        match self.fault:
            case "dies":
                sys.stderr.write("out of luck\n")
                sys.stderr.flush()
                os._exit(3)
            case "mute":
                time.sleep(600)
            case "error":
                raise RuntimeError("no luck")
        start = time.perf_counter()
        y = np.zeros_like(inputs.x)
        for t in range(layer.tokens):
            for e, a in zip(inputs.expert[t], inputs.weight[t], strict=True):
                gate, up, down = experts[e % layer.distinct]
                g = gate @ inputs.x[t]
                y[t] += a * (down @ (g / (1 + np.exp(-g)) * (up @ inputs.x[t])))
        if self.fault in ("wrong", "half"):
            y[layer.tokens - 1] *= 0 if self.fault == "wrong" else 0.5
        return time.perf_counter() - start + (1 if self.fault == "slow" else 0), y

    def weights(self, row):
        for expert in self.layers[row][1]:
            yield from expert

    def release(self, row):
        del self.layers[row]


if __name__ == "__main__":
    serve(NumpyPeer(sys.argv[1] if len(sys.argv) > 1 else ""))
