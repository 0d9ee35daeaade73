"""ggml as a peer, run by .venv-peers' Python: a sweep over quantisation and repacked weights, made anew every run."""

import sys
from functools import partial

import numpy as np
from ggml_experts import Experts
from ggml_library import TYPES, Library
from serve import Unsupported, serve

REPACKED = "CPU_REPACK"
# every four-bit form that the library quantises to, repacked and not
SWEEP = {
    f"{quant}{suffix}": (quant, buffer) for quant in TYPES for suffix, buffer in ((" repacked", True), ("", False))
}


class Ggml:
    """The peer: see `serve.serve`."""

    def __init__(self):
        self.lib = Library()
        self.buffers = self.lib.buffer_types()
        self.prepared = {}
        self.blocks = {}  # by quantisation, plane and distinct expert: shared by rows repacked and not

    def offer(self):
        """Every row of the sweep; `prepare` tells which of them this build doesn't have.

        llama.cpp runs a Q4_0 model in the first buffer type that supports the operation, hence the first Q4_0 row that
        there is.
        """
        rows = [
            {
                "name": name,
                "quant": quant,
                "default": quant == "q4_0",
                "bytes_per_weight": self._bytes_per_weight(quant),
            }
            for name, (quant, _) in SWEEP.items()
        ]
        return {"build": self.lib.build(), "rows": rows}

    def prepare(self, row, layer):
        """Quantise, place, and build the graph."""
        quant, repacked = SWEEP[row]
        if repacked and REPACKED not in self.buffers:
            raise Unsupported("this build of ggml doesn't repack weights")
        block = self.lib.ggml_get_type_traits(TYPES[quant]).contents.blck_size
        if layer.hidden % block or layer.ffn % block:
            raise Unsupported(f"{quant} needs sizes that are multiples of {block}")
        experts = Experts(self.lib, quant, layer)
        try:
            experts.allocate(self.buffers[REPACKED if repacked else "CPU"])
            experts.load(partial(self._blocks, quant, layer))
        except BaseException:
            experts.close()
            raise
        self.prepared[row] = (quant, layer, experts)
        return {"arithmetic": "int8", "own_weights": quant != "q4_0", "buffer": REPACKED if repacked else "CPU"}

    def _bytes_per_weight(self, quant):
        traits = self.lib.ggml_get_type_traits(TYPES[quant]).contents
        return traits.type_size / traits.blck_size

    def _blocks(self, quant, layer, plane, expert):
        """Bytes of one distinct projection: Q4_0 as it was given, others from the fp32 weights."""
        key = (quant, layer.weights, plane, expert)
        if key in self.blocks:
            return self.blocks[key]
        if quant == "q4_0":
            self.blocks[key] = layer.projection(np.memmap(layer.blocks, np.uint8, "r"), plane, expert, 18 / 32)
            return self.blocks[key]
        rows, depth = layer.planes[plane]
        source = np.array(layer.projection(np.memmap(layer.weights, "<f4", "r"), plane, expert, 1))
        found = np.empty(rows * self.lib.ggml_row_size(TYPES[quant], depth), np.uint8)
        self.lib.ggml_quantize_chunk(TYPES[quant], source.ctypes.data, found.ctypes.data, 0, rows, depth, None)
        self.blocks[key] = found
        return found

    def run(self, row, inputs):
        """One timed call."""
        return self.prepared[row][2].run(inputs)

    def weights(self, row):
        """The weights that the row computes with, dequantised by ggml itself."""
        quant, layer, _ = self.prepared[row]
        to_float = self.lib.ggml_get_type_traits(TYPES[quant]).contents.to_float
        for expert in range(layer.distinct):
            for plane in range(3):
                blocks = np.array(self._blocks(quant, layer, plane, expert))
                whole = np.empty(layer.hidden * layer.ffn, np.float32)
                to_float(blocks.ctypes.data, whole.ctypes.data, whole.size)
                yield whole

    def release(self, row):
        """Free a row's memory."""
        quant, _, experts = self.prepared.pop(row)
        experts.close()
        if quant not in {other for other, _, _ in self.prepared.values()}:
            self.blocks = {key: blocks for key, blocks in self.blocks.items() if key[0] != quant}


if __name__ == "__main__":
    sys.exit(serve(Ggml()))
