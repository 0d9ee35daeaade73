"""Models: what a checkpoint says, its weights one at a time, and the part of a decoder that is not an expert."""

from estream_lab.models.checkpoint import Checkpoint
from estream_lab.models.families import FAMILIES, spec_from_config
from estream_lab.models.family import Family
from estream_lab.models.layers import Decoder, KVCache
from estream_lab.models.source import ExpertSource
from estream_lab.models.spec import ModelSpec
from estream_lab.models.tokenizer import Tokenizer

__all__ = [
    "FAMILIES",
    "Checkpoint",
    "Decoder",
    "ExpertSource",
    "Family",
    "KVCache",
    "ModelSpec",
    "Tokenizer",
    "spec_from_config",
]
