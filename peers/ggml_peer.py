"""ggml as a peer, run by .venv-peers' Python: a sweep over quantisation and repacked weights, made anew every run."""

import sys

import numpy as np
from ggml_experts import Experts
from ggml_library import TYPES, Library
from serve import Unsupported, serve

PLAIN, REPACKED = "CPU", "CPU_REPACK"
# every four-bit form that the library quantises to, repacked and not
SWEEP = {
    f"{quant}{suffix}": (quant, buffer)
    for quant in ("q4_0", "q4_1", "q4_K", "iq4_nl", "iq4_xs", "mxfp4")
    for suffix, buffer in ((" repacked", REPACKED), ("", PLAIN))
}
# what llama.cpp quantises a projection to whose inputs are no multiple of the form's 256
FALLBACK = {"q4_K": "q5_0", "iq4_xs": "iq4_nl"}


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
                "copies": 1,
            }
            for name, (quant, _) in SWEEP.items()
        ]
        return {"build": self.lib.build(), "rows": rows}

    def prepare(self, row, layer):
        """Quantise, place, and build the graph."""
        quant, buffer = SWEEP[row]
        if buffer not in self.buffers:
            raise Unsupported("this build of ggml doesn't repack weights")
        quants = [self._fitting(quant, inputs) for _, inputs in layer.planes]
        # a fallback that can't be repacked lies plain beside projections that are, as llama.cpp places each for itself
        own = [buffer if found == quant else PLAIN for found in quants]
        choices = [[buffer] * 3, own] if own != [buffer] * 3 and quant in quants else [[buffer] * 3]
        experts, placed = self._placed(quants, layer, choices)
        try:
            experts.load(lambda plane, expert: self._blocks(quants[plane], layer, plane, expert))
        except BaseException:
            experts.close()
            raise
        self.prepared[row] = (quants, layer, experts)
        notes = {"quants": quants, "buffers": placed}
        return {"arithmetic": "int8", "own_weights": quant != "q4_0", **notes}

    def _placed(self, quants, layer, choices):
        """Experts in the first choice of buffer types that this build supports, and that choice."""
        for choice in choices:
            experts = Experts(self.lib, quants, layer)
            try:
                experts.allocate([self.buffers[name] for name in choice])
                return experts, choice
            except BaseException as error:
                experts.close()
                if not isinstance(error, Unsupported) or choice is choices[-1]:
                    raise

    def _fitting(self, quant, inputs):
        """The form itself, or what llama.cpp falls back to."""
        block = self.lib.ggml_get_type_traits(TYPES[quant]).contents.blck_size
        return FALLBACK[quant] if inputs % block else quant

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
        quants, layer, _ = self.prepared[row]
        for expert in range(layer.distinct):
            for plane, quant in enumerate(quants):
                to_float = self.lib.ggml_get_type_traits(TYPES[quant]).contents.to_float
                blocks = np.array(self._blocks(quant, layer, plane, expert))
                whole = np.empty(layer.hidden * layer.ffn, np.float32)
                to_float(blocks.ctypes.data, whole.ctypes.data, whole.size)
                yield whole

    def release(self, row):
        """Free a row's memory."""
        self.prepared.pop(row)[2].close()
        used = {quant for quants, _, _ in self.prepared.values() for quant in quants}
        self.blocks = {key: blocks for key, blocks in self.blocks.items() if key[0] in used}


if __name__ == "__main__":
    sys.exit(serve(Ggml()))
