"""An OLMoE model as a GGUF file, with weights that are handed over as they are.

Names, order of dimensions and metadata are those that llama.cpp's own conversion of OlmoeForCausalLM writes: queries
and keys are not permuted (llama.cpp rotates this architecture's heads in halves, as the checkpoint has them), and a
layer's experts lie in one tensor a projection.
"""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from safetensors import safe_open

OUTER = {"embed.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "head.weight": "output.weight"}
LAYER = {
    "attention_norm.weight": "attn_norm.weight",
    "q_proj.weight": "attn_q.weight",
    "k_proj.weight": "attn_k.weight",
    "v_proj.weight": "attn_v.weight",
    "q_norm.weight": "attn_q_norm.weight",
    "k_norm.weight": "attn_k_norm.weight",
    "o_proj.weight": "attn_output.weight",
    "expert_norm.weight": "ffn_norm.weight",
    "router.weight": "ffn_gate_inp.weight",
}
ITEM_BYTES = {"q4_0": 18 / 32, "f32": 4}  # a weight's, in the file of experts


def write(spec, dense, experts, quant, into):
    """Write the model: dense weights in float32, experts in the very bytes of `experts`.

    Args:
        spec: of the model, by the names of estream_lab/models/spec.py.
        dense: safetensors file of the dense weights, by their canonical names.
        experts: file of each layer's gate (E, F, H), up (E, F, H) and down (E, H, F), in `quant`.
        quant: q4_0 (blocks of 18 bytes) or f32.
        into: the GGUF file.
    """
    writer = GGUFWriter(into, "olmoe")
    _describe(writer, spec)
    with safe_open(dense, "np") as file:
        for name in file.keys():  # noqa: SIM118 - not a mapping
            writer.add_tensor(_name(name), file.get_tensor(name).astype(np.float32, copy=False))
    for name, plane in _planes(spec, Path(experts), quant):
        writer.add_tensor(name, plane, raw_dtype=GGMLQuantizationType[quant.upper()])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer, spec):
    writer.add_block_count(spec["layers"])
    writer.add_context_length(spec["context"])
    writer.add_embedding_length(spec["hidden"])
    writer.add_feed_forward_length(spec["ffn"])
    writer.add_head_count(spec["heads"])
    writer.add_head_count_kv(spec["kv_heads"])
    writer.add_layer_norm_rms_eps(spec["rms_eps"])
    writer.add_rope_freq_base(spec["rope_theta"])
    writer.add_expert_count(spec["experts"])
    writer.add_expert_used_count(spec["router"]["top_k"])
    writer.add_vocab_size(spec["vocab"])
    writer.add_tokenizer_model("none")  # prompts are token ids


def _name(canonical):
    if canonical in OUTER:
        return OUTER[canonical]
    _, layer, name = canonical.split(".", 2)
    return f"blk.{layer}.{LAYER[name]}"


def _planes(spec, path, quant):
    """Name and bytes of every projection of a layer's experts, in the file's order."""
    item = "<f4" if quant == "f32" else np.uint8
    file, at = np.memmap(path, item, "r"), 0
    for layer in range(spec["layers"]):
        for name, rows, depth in (
            ("gate", spec["ffn"], spec["hidden"]),
            ("up", spec["ffn"], spec["hidden"]),
            ("down", spec["hidden"], spec["ffn"]),
        ):
            width = depth if quant == "f32" else int(depth * ITEM_BYTES[quant])
            count = spec["experts"] * rows * width
            yield f"blk.{layer}.ffn_{name}_exps.weight", file[at : at + count].reshape(spec["experts"], rows, width)
            at += count
