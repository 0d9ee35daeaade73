"""The same weights read otherwise: a router that renormalises, or values scaled without changing what is computed.

Scaling is by powers of two, and what is multiplied in one place is divided in another: in exact arithmetic, and in
float32, the model computes the same. Only where numbers end (fp16: 65504) does it make a difference.
"""

import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from estream_lab.errors import EStreamError
from estream_lab.models.checkpoint import CONFIG, SINGLE, Checkpoint
from estream_lab.models.tokenizer import FILE as TOKENIZER


@dataclass(frozen=True)
class Variant:
    """Another reading of an OLMoE checkpoint. None of them was trained so.

    Attributes:
        renormalise: whether the router divides a token's weights by their sum.
        swiglu: log2 of the factor on all SwiGLU results: up projections are multiplied by it, down ones divided.
        residual: log2 of the factor on the residual stream: on the embedding and on what attention and experts add.
        top_k: experts of a token, where not as many as in the checkpoint.
    """

    renormalise: bool = False
    swiglu: int = 0
    residual: int = 0
    top_k: int | None = None

    @property
    def label(self) -> str:
        """A name for its files."""
        return f"{self.renormalise:d}_{self.swiglu}_{self.residual}_{self.top_k or 0}"

    def factor(self, name: str) -> float:
        """What a tensor is multiplied with."""
        if name.endswith("up_proj.weight"):
            return math.ldexp(1, self.swiglu)
        if name.endswith("down_proj.weight"):
            return math.ldexp(1, self.residual - self.swiglu)
        # queries and keys: their norms share the epsilon that grows with the residual stream
        if name.endswith(("embed_tokens.weight", "o_proj.weight", "q_proj.weight", "k_proj.weight")):
            return math.ldexp(1, self.residual)
        return 1.0


def write_variant(checkpoint: Path, folder: Path, variant: Variant) -> Path:
    """Write a variant of a checkpoint, float32, into a new folder; returns it.

    Raises:
        EStreamError: not an OLMoE checkpoint with one tensor a projection, or a folder that exists.
    """
    if folder.exists():
        raise EStreamError(f"{folder} exists already: remove it or choose another name")
    with Checkpoint(checkpoint) as source:
        packed = any(name.endswith("gate_up_proj") for name in source.names)
        if source.config.get("model_type") != "olmoe" or packed or source.config.get("tie_word_embeddings"):
            raise EStreamError(f"{checkpoint} is no untied OLMoE checkpoint with one tensor a projection: give another")
        folder.mkdir(parents=True)
        config = source.config | {"norm_topk_prob": variant.renormalise, "dtype": "float32"}
        if variant.top_k is not None:
            config["num_experts_per_tok"] = variant.top_k
        config["rms_norm_eps"] = config.get("rms_norm_eps", 1e-5) * math.ldexp(1, 2 * variant.residual)
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
        if (checkpoint / TOKENIZER).exists():
            shutil.copy(checkpoint / TOKENIZER, folder / TOKENIZER)
        _write(source, folder / SINGLE, variant)
    return folder


def _write(source: Checkpoint, path: Path, variant: Variant) -> None:
    """One safetensors file (the format's README, "Format")."""
    header, at = {}, 0
    for name in source.names:
        size = 4 * math.prod(source.shape(name))
        header[name] = {"dtype": "F32", "shape": source.shape(name), "data_offsets": [at, at + size]}
        at += size
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with open(path, "wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for name in source.names:
            file.write((source.read(name) * np.float32(variant.factor(name))).astype("<f4").tobytes())
