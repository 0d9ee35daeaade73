"""llama.cpp as a peer of whole prefills, run by .venv-peers' Python.

Requests and answers, beside those of `serve.answer_lines` (estream_lab/bench/prefill/llama.py is the other side):

    {"do": "offer"}                                        -> {"build": {...}}
    {"do": "write", "spec": {...}, "dense": file, "experts": file, "quant": ..., "into": file}        -> {}
    {"do": "quantise", "source": file, "quant": ..., "threads": n, "into": file}                      -> {}
    {"do": "prepare", "row": ..., "model": file, "tokens": T, "threads": n, "repack": bool, "ubatch": n,
     "flash": "on" | "off", "cache": "f32"}                -> {"tensors": {...}, ...}
    {"do": "run", "row": ..., "tokens": file of int32, "outputs": file or null}
                                                           -> {"seconds": ..., "peak_rss_bytes": ...}
    {"do": "release", "row": ...}                          -> {}

`repack`, `ubatch`, `flash` and `cache` may be null: then it is what the library does by itself. Outputs are the last
token's logits, float32 (V,).
"""

import ctypes
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass

import llama_cpp as llama
import numpy as np
import olmoe_gguf
from ggml_library import Library
from gguf import GGUFReader
from serve import Unsupported, answer_lines

# llama.cpp's mixtures, by the type that they give most matrices
FILE_TYPES = {"q4_0": 2, "q4_1": 3, "q4_K": 14, "iq4_nl": 25, "iq4_xs": 30, "mxfp4": 38}
FLASH = {"auto": -1, "off": 0, "on": 1}
F32 = 0  # enum ggml_type


@dataclass
class Prefill:
    """A context over a model: one row."""

    model: tuple[str, bool]
    context: object
    vocab: int


class Llama:
    """The peer."""

    def __init__(self):
        llama.llama_backend_init()
        self.models, self.rows = {}, {}

    def answer(self, request):
        """To one request; see above."""
        do = request.pop("do")
        if do not in ("offer", "write", "quantise", "prepare", "run", "release"):
            raise ValueError(f"unknown request {do!r}")
        return getattr(self, do)(**request) or {}

    def offer(self):
        """Versions, flags and features."""
        return {"build": Library().build()}

    def write(self, spec, dense, experts, quant, into):
        """A model file of weights that are given."""
        olmoe_gguf.write(spec, dense, experts, quant, into)

    def quantise(self, source, quant, threads, into):
        """A model file as llama.cpp's own quantiser makes it; matrices of the type already stay as they are."""
        params = llama.llama_model_quantize_default_params()
        params.ftype, params.nthread, params.allow_requantize = FILE_TYPES[quant], threads, True
        if llama.llama_model_quantize(source.encode(), into.encode(), ctypes.byref(params)):
            raise RuntimeError(f"llama.cpp made no {quant} file; is there room for {into}?")

    def prepare(self, row, model, tokens, threads, repack, ubatch, flash, cache):
        """Load the model unless another row has, and make a context on it."""
        params = llama.llama_context_default_params()
        params.n_ctx = tokens
        params.n_batch = max(params.n_batch, tokens)  # the prompt is one batch
        params.n_threads = params.n_threads_batch = threads
        params.n_ubatch = ubatch or params.n_ubatch
        params.flash_attn_type = FLASH[flash] if flash else params.flash_attn_type
        if cache == "f32":
            params.type_k = params.type_v = F32
        key, loaded = self._model(model, repack)
        context = llama.llama_init_from_model(loaded, params)
        if not context:
            raise Unsupported("llama.cpp makes no context with these settings")
        vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(loaded))
        self.rows[row] = Prefill(key, context, vocab)
        chosen = {number: name for name, number in FLASH.items()}[params.flash_attn_type]
        return {
            "tensors": tensor_types(model), "repack": key[1], "ubatch": params.n_ubatch, "flash": chosen,
        }  # fmt: skip

    def _model(self, path, repack):
        params = llama.llama_model_default_params()
        if repack is not None:
            params.use_extra_bufts = repack
        key = (path, bool(params.use_extra_bufts))
        if key not in self.models:
            self.models[key] = llama.llama_model_load_from_file(path.encode(), params)
            if not self.models[key]:
                del self.models[key]
                raise RuntimeError(f"llama.cpp can't load {path}")
        return key, self.models[key]

    def run(self, row, tokens, outputs):
        """One prompt into an empty cache."""
        prefill = self.rows[row]
        ids = np.fromfile(tokens, "<i4")
        array = (ctypes.c_int32 * len(ids))(*ids)
        llama.llama_memory_clear(llama.llama_get_memory(prefill.context), True)
        batch = llama.llama_batch_get_one(array, len(ids))  # logits of the last token only
        start = time.perf_counter()
        status = llama.llama_decode(prefill.context, batch)
        llama.llama_synchronize(prefill.context)
        seconds = time.perf_counter() - start
        if status:
            raise RuntimeError(f"llama_decode returned {status}")
        if outputs:
            logits = llama.llama_get_logits_ith(prefill.context, -1)
            np.ctypeslib.as_array(logits, (prefill.vocab,)).astype("<f4").tofile(outputs)
        return {"seconds": seconds, "peak_rss_bytes": peak_rss_bytes()}

    def release(self, row):
        """Free the context, and the model when no row is left on it."""
        prefill = self.rows.pop(row)
        llama.llama_free(prefill.context)
        if all(other.model != prefill.model for other in self.rows.values()):
            llama.llama_model_free(self.models.pop(prefill.model))


def peak_rss_bytes():
    """Highest resident set of this process since it started."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def tensor_types(path):
    """How many matrices of a model file are of which type: experts', head's, embedding's and the other dense ones'."""
    found = {}
    for tensor in GGUFReader(path).tensors:
        if len(tensor.shape) > 1 and tensor.name.count("ffn_gate_inp") == 0:
            kind = {"output.weight": "head", "token_embd.weight": "embedding"}.get(tensor.name)
            kind = kind or ("experts" if "_exps" in tensor.name else "attention")
            found.setdefault(kind, Counter())[tensor.tensor_type.name.lower().replace("_k", "_K")] += 1
    return found


if __name__ == "__main__":
    sys.exit(answer_lines(Llama().answer))
