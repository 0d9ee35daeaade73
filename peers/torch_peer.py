"""torch as a peer, run by .venv-peers' Python: each expert's tokens gathered, three matrix products, scattered back.

Weights are the Q4_0 ones, dequantised before anything is timed: torch has no such format.
"""

import sys
import time

import numpy as np
import torch
from q4_0 import dequantise
from serve import serve
from torch.nn.functional import linear, silu

ROWS = {"bf16": torch.bfloat16, "fp32": torch.float32}
TRIALS = 5


def multiply_as_stored(x, w):
    """x Wᵀ in the type of both."""
    return linear(x, w)


def multiply_widened(x, w):
    """x Wᵀ in fp32 of weights stored in bf16: faster on processors without bf16 instructions."""
    return linear(x.float(), w.float()).to(x.dtype)


def faster_product(dtype, layer):
    """The faster of the two products at the rows that an expert has on average: the best of some trials in turn."""
    if dtype == torch.float32:
        return multiply_as_stored
    rows = -(-layer.tokens * layer.top_k // layer.experts)
    x, w = torch.randn(rows, layer.hidden).to(dtype), torch.randn(layer.ffn, layer.hidden).to(dtype)
    best = {multiply_widened: float("inf"), multiply_as_stored: float("inf")}
    for _ in range(TRIALS):
        for product in best:
            start = time.perf_counter()
            product(x, w)
            best[product] = min(best[product], time.perf_counter() - start)
    return min(best, key=best.get)


class Experts:
    """One layer's weights in one type: gate and up (E, F, H), down (E, H, F)."""

    def __init__(self, dtype, layer):
        self.dtype, self.layer = dtype, layer
        self.planes = [torch.empty((layer.experts, *sizes), dtype=dtype) for sizes in layer.planes]
        file = np.memmap(layer.blocks, np.uint8, "r")
        for plane, (tensor, sizes) in enumerate(zip(self.planes, layer.planes, strict=True)):
            for distinct in range(layer.distinct):
                w = torch.from_numpy(dequantise(layer.projection(file, plane, distinct, 18 / 32)).reshape(sizes))
                for expert in range(distinct, layer.experts, layer.distinct):
                    tensor[expert].copy_(w)
        self.product = faster_product(dtype, layer)

    def run(self, x, expert, weight):
        """y (T, H) of x (T, H), expert (T, k) and weight (T, k), all in this layer's type but `expert`."""
        gate, up, down = self.planes
        y = torch.zeros_like(x)
        order = expert.reshape(-1).argsort(stable=True)  # routes by expert
        token, scale = order // self.layer.top_k, weight.reshape(-1, 1)[order]
        first = 0
        for e, count in enumerate(expert.reshape(-1).bincount(minlength=self.layer.experts).tolist()):
            if count:
                rows = token[first : first + count]
                gathered = x.index_select(0, rows)  # (n, H)
                act = silu(self.product(gathered, gate[e])).mul_(self.product(gathered, up[e]))  # (n, F)
                y.index_add_(0, rows, self.product(act, down[e]).mul_(scale[first : first + count]))
                first += count
        return y


class Torch:
    """The peer: see `serve.serve`."""

    def __init__(self):
        self.prepared = {}

    def offer(self):
        """Two rows, and how torch was built."""
        build = {
            "torch": torch.__version__,
            "flags": torch.__config__.show(),
            "parallel": torch.__config__.parallel_info(),
            "features": torch.backends.cpu.get_cpu_capability(),
        }
        rows = [
            {
                "name": name,
                "quant": f"q4_0 as {name}",
                "default": False,
                "bytes_per_weight": dtype.itemsize,
                "copies": 1,
            }
            for name, dtype in ROWS.items()
        ]
        return {"build": build, "rows": rows}

    def prepare(self, row, layer):
        """Dequantise, and choose the product."""
        torch.set_num_threads(layer.threads)
        self.prepared[row] = experts = Experts(ROWS[row], layer)
        arithmetic = "fp32" if experts.product is multiply_widened else row
        return {"arithmetic": arithmetic, "own_weights": False, "form": experts.product.__name__.replace("_", " ")}

    @torch.inference_mode()
    def run(self, row, inputs):
        """One timed call."""
        experts = self.prepared[row]
        torch.set_num_threads(experts.layer.threads)
        x = torch.from_numpy(inputs.x).to(experts.dtype)
        expert, weight = torch.from_numpy(inputs.expert).long(), torch.from_numpy(inputs.weight).to(experts.dtype)
        start = time.perf_counter()
        y = experts.run(x, expert, weight)
        return time.perf_counter() - start, y.float().numpy()

    def release(self, row):
        """Free a row's weights."""
        del self.prepared[row]


if __name__ == "__main__":
    sys.exit(serve(Torch()))
