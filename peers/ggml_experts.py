"""One MoE layer in ggml: weights in one buffer type, and the graph that llama.cpp builds over them.

The graph is that of `build_moe_ffn` behind the router: up and gate by `ggml_mul_mat_id`, `ggml_swiglu_split`,
down by `ggml_mul_mat_id`, times the routes' weights, and the sum over a token's experts.
"""

import time

import numpy as np
from ggml_library import F32, I32, TYPES, InitParams
from serve import Unsupported

GRAPH_NODES = 512
WEIGHTS_USAGE = 1  # GGML_BACKEND_BUFFER_USAGE_WEIGHTS


class Experts:
    """Weights of one layer in one quantisation and buffer type, and the graph that uses them."""

    def __init__(self, lib, quants, layer):
        """`quants` of gate, up and down."""
        self.lib, self.layer, self.quants = lib, layer, quants
        self.memories, self.held, self.allocator = [], [], None

    def allocate(self, buffer_types):
        """Weights without values yet, each projection in its buffer type, and the graph.

        Raises:
            Unsupported: the build doesn't multiply one of these quantisations in its buffer type here.
        """
        lib = self.lib
        self.planes = [self._plane(*of) for of in zip(self.quants, self.layer.planes, buffer_types, strict=True)]
        self._build()
        if not all(lib.ggml_backend_dev_supports_op(lib.device, product) for product in self.products):
            raise Unsupported("this build doesn't multiply this quantisation in this buffer type on this processor")

    def _plane(self, quant, sizes, buffer_type):
        """One projection of all experts: [inputs, outputs, E]."""
        lib, (outputs, inputs) = self.lib, sizes
        memory = lib.ggml_init(InitParams(2 * lib.ggml_tensor_overhead(), None, True))
        self.memories.append(memory)
        tensor = lib.ggml_new_tensor_3d(memory, TYPES[quant], inputs, outputs, self.layer.experts)
        buffer = lib.ggml_backend_alloc_ctx_tensors_from_buft(memory, buffer_type)
        if not buffer:
            raise MemoryError("ggml could not allocate the weights")
        self.held.append(buffer)
        lib.ggml_backend_buffer_set_usage(buffer, WEIGHTS_USAGE)
        return tensor

    def load(self, blocks):
        """Set every expert's weights: `blocks(plane, expert)` gives a distinct projection's bytes."""
        for plane, tensor in enumerate(self.planes):
            distinct = [blocks(plane, expert) for expert in range(self.layer.distinct)]
            whole = np.concatenate([distinct[e % len(distinct)] for e in range(self.layer.experts)])
            self.lib.ggml_backend_tensor_set(tensor, whole.ctypes.data, 0, whole.nbytes)

    def _build(self):
        """llama.cpp's graph, its inputs and outputs allocated once."""
        lib, layer = self.lib, self.layer
        size = 256 * lib.ggml_tensor_overhead() + lib.ggml_graph_overhead_custom(GRAPH_NODES, False)
        memory = lib.ggml_init(InitParams(size, None, True))
        self.memories.append(memory)
        self.graph = lib.ggml_new_graph_custom(memory, GRAPH_NODES, False)
        self.x = lib.ggml_new_tensor_3d(memory, F32, layer.hidden, 1, layer.tokens)
        self.expert = lib.ggml_new_tensor_2d(memory, I32, layer.top_k, layer.tokens)
        self.weight = lib.ggml_new_tensor_3d(memory, F32, 1, layer.top_k, layer.tokens)
        for tensor in (self.x, self.expert, self.weight):
            lib.ggml_set_input(tensor)
        gate_weights, up_weights, down_weights = self.planes
        up = lib.ggml_mul_mat_id(memory, up_weights, self.x, self.expert)  # [F, k, T]
        gate = lib.ggml_mul_mat_id(memory, gate_weights, self.x, self.expert)  # [F, k, T]
        act = lib.ggml_swiglu_split(memory, gate, up)
        down = lib.ggml_mul_mat_id(memory, down_weights, act, self.expert)  # [H, k, T]
        self.products = (gate, up, down)
        weighted = lib.ggml_mul(memory, down, self.weight)
        lib.ggml_build_forward_expand(self.graph, weighted)
        row = 4 * layer.hidden
        views = [
            lib.ggml_view_2d(memory, weighted, layer.hidden, layer.tokens, row * layer.top_k, row * i)
            for i in range(layer.top_k)
        ]
        for view in views:  # llama.cpp orders the views before the sums
            lib.ggml_build_forward_expand(self.graph, view)
        total = views[0]
        for view in views[1:]:
            total = lib.ggml_add(memory, total, view)
        self.y = lib.ggml_cont(memory, total) if layer.top_k == 1 else total
        lib.ggml_set_output(self.y)
        lib.ggml_build_forward_expand(self.graph, self.y)
        self.allocator = lib.ggml_gallocr_new(lib.ggml_backend_get_default_buffer_type(lib.cpu))
        if not lib.ggml_gallocr_alloc_graph(self.allocator, self.graph):
            raise MemoryError("ggml could not allocate the graph")

    def run(self, inputs):
        """Seconds of one call, and y (T, H)."""
        lib = self.lib
        for tensor, array in ((self.x, inputs.x), (self.expert, inputs.expert), (self.weight, inputs.weight)):
            lib.ggml_backend_tensor_set(tensor, array.ctypes.data, 0, array.nbytes)
        lib.ggml_backend_cpu_set_n_threads(lib.cpu, self.layer.threads)
        start = time.perf_counter()
        status = lib.ggml_backend_graph_compute(lib.cpu, self.graph)
        seconds = time.perf_counter() - start
        if status:
            raise RuntimeError(f"ggml computed with status {status}")
        y = np.empty((self.layer.tokens, self.layer.hidden), np.float32)
        lib.ggml_backend_tensor_get(self.y, y.ctypes.data, 0, y.nbytes)
        return seconds, y

    def close(self):
        """Free everything."""
        if self.allocator:
            self.lib.ggml_gallocr_free(self.allocator)
        for buffer in self.held:
            self.lib.ggml_backend_buffer_free(buffer)
        for memory in self.memories:
            self.lib.ggml_free(memory)
