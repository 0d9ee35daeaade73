"""Text to token ids and back, through the `tokenizers` library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.models.regular import read_regular

FILE = "tokenizer.json"


class Tokenizer:
    """A tokenizer as it lies beside a checkpoint in tokenizer.json."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        # A saved tokenizer may carry the truncation and padding of its training run: both would change prompts.
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend

    @classmethod
    def from_files(cls, folder: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer of a checkpoint's folder.

        Raises:
            EStreamError: tokenizer.json is missing or can't be understood.
        """
        path = Path(folder) / FILE
        try:
            text = read_regular(path).decode("utf-8")
        except OSError as error:
            raise EStreamError(f"{path} can't be read ({error.strerror}); copy the model's {FILE} there") from error
        except UnicodeDecodeError as error:
            raise EStreamError(f"{path} is no text; copy the model's {FILE} there") from error
        return cls.from_json(text, str(path))

    @classmethod
    def from_json(cls, text: str, where: str = FILE) -> Tokenizer:
        """The tokenizer that `to_json` wrote; `where` names the origin in messages."""
        try:
            backend = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises bare Exception
            raise EStreamError(f"{where} is no tokenizer file ({error}); copy the model's {FILE} there") from error
        return cls(backend)

    def to_json(self) -> str:
        """The content of a tokenizer.json."""
        return str(self._backend.to_str())

    @property
    def size(self) -> int:
        """Number of token ids, added tokens included."""
        return int(self._backend.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> NDArray[np.int32]:
        """Token ids (T,), with the special tokens that the model's own post-processor adds.

        Raises:
            EStreamError: text that holds half a character, as a command line makes of bytes that are no UTF-8.
        """
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise EStreamError("the text holds bytes that form no character; give it in UTF-8")
        return np.array(self._backend.encode(text).ids, np.int32)

    def decode(self, ids: Sequence[int] | NDArray[np.integer]) -> str:
        """The text of token ids, special tokens included; bytes that form no character become U+FFFD.

        Raises:
            EStreamError: an id that the tokenizer doesn't know.
        """
        plain = [int(id) for id in ids]
        for id in plain:
            self._token(id)
        return str(self._backend.decode(plain, skip_special_tokens=False))

    def token_text(self, id: int) -> str:
        """One token as printable text, control characters and stray bytes escaped: "the", " and", "\\n", "\\xc3".

        Raises:
            EStreamError: an id that the tokenizer doesn't know.
        """
        token = self._token(id)
        text = str(self._backend.decode([id], skip_special_tokens=False))
        if "\ufffd" in text and all(char in _BYTE_OF for char in token):
            return "".join(f"\\x{_BYTE_OF[char]:02x}" for char in token)
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text or token)

    def _token(self, id: int) -> str:
        token = self._backend.id_to_token(id) if 0 <= id < 2**32 else None
        if token is None:
            raise EStreamError(f"the tokenizer has no token {id}; use ids below {self.size}")
        return str(token)


def _byte_alphabet() -> dict[str, int]:
    """Character → byte of the byte-level alphabet that GPT-2 introduced: printable bytes stand for themselves, the
    others are moved to 256 and up in their order."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)}
    moved = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(moved)}


_BYTE_OF = _byte_alphabet()
