"""A byte-level tokenizer of 256 tokens: token i is byte i, in a form that converters accept.

It is a byte-level BPE without merges over GPT-2's byte alphabet, the printable stand-ins that
``tokenizers`` and GGUF converters know, so no special case is needed anywhere to load it.
"""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def byte_alphabet() -> list[str]:
    """GPT-2's printable character for each byte value: [256], index is the byte."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)}
    alphabet = []
    shifted = 0
    for byte in range(256):
        if byte in printable:
            alphabet.append(chr(byte))
        else:
            alphabet.append(chr(256 + shifted))
            shifted += 1
    return alphabet


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer whose ids are the bytes of the UTF-8 text."""
    vocabulary = {character: byte for byte, character in enumerate(byte_alphabet())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call, unused-ignore]
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, model_max_length=1024
    )
