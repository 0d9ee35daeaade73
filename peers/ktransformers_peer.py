"""KTransformers' CPU kernels (kt-kernel) as a peer, run by .venv-peers' Python: its two four-bit methods."""

import importlib.metadata
import sys
import time
from functools import partial

import kt_kernel
import numpy as np
import torch
from kt_kernel import kt_kernel_ext
from kt_kernel.utils import amx
from serve import Unsupported, serve

GGML_Q4_0 = 2
GROUP = 32  # weights that share a scale, as in Q4_0


def llamafile(layer, config):
    """Method LLAMAFILE, settings as its wrapper's: the very Q4_0 blocks, activations quantised to int8."""
    if layer.ffn % 256:
        raise Unsupported("the method LLAMAFILE needs an expert size that is a multiple of 256")
    file = np.memmap(layer.blocks, np.uint8, "r")
    planes = [
        np.concatenate([layer.projection(file, plane, e % layer.distinct, 18 / 32) for e in range(layer.experts)])
        for plane in range(3)
    ]
    config.m_block, config.group_min_len, config.group_max_len = 32, 10, layer.tokens
    config.gate_proj, config.up_proj, config.down_proj = (plane.ctypes.data for plane in planes)
    config.gate_type = config.up_type = config.down_type = kt_kernel_ext.kvcache.ggml_type(GGML_Q4_0)
    config.hidden_type = kt_kernel_ext.kvcache.ggml_type.BF16
    return kt_kernel_ext.moe.MOE(config), planes


def raw_int4(layer, config):
    """Method RAWINT4: symmetric int4 with bf16 scales of 32 weights, products in bf16 or int8, as the processor has."""
    kernel = amx._select_rawint4_backend(GROUP)  # the choice that its wrapper makes
    if kernel is None:
        raise Unsupported("kt-kernel has no kernel of its method RAWINT4 for this processor")
    packed = [[quantise_raw_int4(layer, plane, expert) for expert in range(layer.distinct)] for plane in range(3)]
    nibbles, scales = (
        [[[plane[e % layer.distinct][part].data_ptr() for e in range(layer.experts)]] for plane in packed]
        for part in (0, 1)
    )
    config.gate_projs, config.up_projs, config.down_projs = nibbles
    config.gate_scales, config.up_scales, config.down_scales = scales
    config.quant_config.bits, config.quant_config.group_size, config.quant_config.zero_point = 4, GROUP, False
    return kernel(config), packed


def quantise_raw_int4(layer, plane, expert):
    """Nibbles (N, K / 2) uint8 of q + 8, the even input low, and scales (N, K / 32) bf16, from the fp32 weights."""
    rows, depth = layer.planes[plane]
    file = np.memmap(layer.weights, "<f4", "r")
    w = torch.from_numpy(np.array(layer.projection(file, plane, expert, 1)).reshape(rows, -1, GROUP))
    d = (w.abs().amax(-1) / 7).bfloat16()
    q = (w / d.float().clamp(min=1e-30)[..., None]).round().clamp(-8, 7).add(8).to(torch.uint8).reshape(rows, depth)
    return (q[:, 0::2] | (q[:, 1::2] << 4)).contiguous(), d.contiguous()


def dequantise_raw_int4(nibbles, d):
    """Weights (N * K,) float32 of `quantise_raw_int4`."""
    q = torch.stack([nibbles & 15, nibbles >> 4], dim=-1).reshape(*d.shape, GROUP).float() - 8
    return (q * d.float()[..., None]).reshape(-1).numpy()


# name: (how it is made, quantisation, arithmetic, own weights)
METHODS = {
    "llamafile": (llamafile, "q4_0", "int8", False),
    "rawint4": (raw_int4, "int4, bf16 scales of 32", "bf16", True),
}


class KTransformers:
    """The peer: see `serve.serve`."""

    def __init__(self):
        self.prepared, self.pools = {}, {}

    def offer(self):
        """Both methods."""
        build = {
            "kt-kernel": importlib.metadata.version("kt-kernel"),
            "torch": torch.__version__,
            "flags": "the published wheel",
            "features": kt_kernel.__cpu_variant__,
        }
        rows = [
            {"name": name, "quant": quant, "default": quant == "q4_0", "bytes_per_weight": 18 / 32, "copies": 2}
            for name, (_, quant, _, _) in METHODS.items()
        ]
        return {"build": build, "rows": rows}

    def prepare(self, row, layer):
        """Give the weights to the library."""
        make, _, arithmetic, own_weights = METHODS[row]
        pool = self._pool(layer.threads)
        on_gpu = torch.zeros(layer.experts, dtype=torch.bool)
        config = kt_kernel_ext.moe.MOEConfig(layer.experts, layer.top_k, layer.hidden, layer.ffn, on_gpu.data_ptr())
        config.layer_idx, config.pool, config.max_len = 0, pool.backend_, layer.tokens
        moe, weights = make(layer, config)
        order = torch.arange(layer.experts, dtype=torch.int64)
        pool.submit(moe.load_weights_task(order.data_ptr()))
        pool.sync()
        self.prepared[row] = (
            layer,
            pool,
            moe,
            weights,
            on_gpu,
        )  # kept alive: the library may read the weights as given
        if row == "rawint4" and kt_kernel.__cpu_variant__ != "avx2":
            arithmetic = "bf16 or int8, as the library chose"
        return {"arithmetic": arithmetic, "own_weights": own_weights, "form": type(moe).__name__}

    def _pool(self, threads):
        """One set of threads on one node, whose number can't be changed."""
        if threads not in self.pools:
            config = kt_kernel_ext.WorkerPoolConfig()
            config.subpool_count, config.subpool_numa_map, config.subpool_thread_count = 1, [0], [threads]
            self.pools[threads] = kt_kernel_ext.CPUInfer(config)
        return self.pools[threads]

    def run(self, row, inputs):
        """One timed call."""
        layer, pool, moe, _, _ = self.prepared[row]
        x, weight = torch.from_numpy(inputs.x).bfloat16(), torch.from_numpy(np.array(inputs.weight))
        expert = torch.from_numpy(inputs.expert).long().contiguous()
        y, count = torch.zeros_like(x), torch.tensor([layer.tokens], dtype=torch.int32)
        pointers = [tensor.data_ptr() for tensor in (expert, weight, x, y)]
        call = partial(moe.forward_task, count.data_ptr(), layer.top_k, *pointers, False)
        start = time.perf_counter()
        pool.submit(call())
        pool.sync()
        return time.perf_counter() - start, y.float().numpy()

    def weights(self, row):
        """Of `rawint4`."""
        layer, _, _, packed, _ = self.prepared[row]
        for expert in range(layer.distinct):
            for plane in packed:
                yield dequantise_raw_int4(*plane[expert])

    def release(self, row):
        """Free a row's memory."""
        del self.prepared[row]


if __name__ == "__main__":
    sys.exit(serve(KTransformers()))
