import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, processors

from estream_lab.errors import EStreamError
from estream_lab.models import Tokenizer
from estream_lab.models.tokenizer import _byte_alphabet


def byte_level() -> tokenizers.Tokenizer:
    """Token i is byte i, in the byte alphabet of GPT-2, as the shipped model's tokenizer."""
    vocabulary = _byte_alphabet()
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


BYTES = Tokenizer(byte_level())


@given(st.text())
def test_bytes_in_bytes_out(text: str) -> None:
    ids = BYTES.encode(text)
    assert ids.dtype == np.int32
    assert bytes(ids.tolist()) == text.encode()
    assert BYTES.decode(ids) == text


def test_half_a_character_is_refused() -> None:
    with pytest.raises(EStreamError, match="give it in UTF-8"):
        BYTES.encode("a\udcff")


def test_the_byte_alphabet_is_the_librarys() -> None:
    assert set(_byte_alphabet()) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(_byte_alphabet().values()) == list(range(256))


@pytest.mark.parametrize(
    ("byte", "text"), [(0x41, "A"), (0x20, " "), (0x0A, "\\n"), (0x00, "\\x00"), (0xC3, "\\xc3"), (0x7F, "\\x7f")]
)
def test_a_token_as_printable_text(byte: int, text: str) -> None:
    assert BYTES.token_text(byte) == text


def test_every_byte_has_a_printable_text_of_its_own() -> None:
    texts = [BYTES.token_text(byte) for byte in range(256)]
    assert all(text.isprintable() and text for text in texts)
    assert len(set(texts)) == 256


@pytest.mark.parametrize("id", [-1, 256, 2**40])
def test_an_id_without_a_token_is_refused(id: int) -> None:
    with pytest.raises(EStreamError, match=f"no token {id}; use ids below 256"):
        BYTES.token_text(id)
    with pytest.raises(EStreamError, match=f"no token {id}"):
        BYTES.decode([65, id])


def test_files_round_trip(tmp_path: Path) -> None:
    byte_level().save(str(tmp_path / "tokenizer.json"))
    loaded = Tokenizer.from_files(tmp_path)
    assert loaded.size == 256
    assert Tokenizer.from_json(loaded.to_json()).to_json() == loaded.to_json()
    assert loaded.decode(loaded.encode("naïve\n")) == "naïve\n"


def test_saved_truncation_and_padding_do_not_reach_prompts(tmp_path: Path) -> None:
    backend = byte_level()
    backend.enable_truncation(max_length=4)
    backend.enable_padding(length=16, pad_id=0, pad_token="A")
    backend.save(str(tmp_path / "tokenizer.json"))
    assert "max_length" in json.loads((tmp_path / "tokenizer.json").read_text())["truncation"]
    assert Tokenizer.from_files(tmp_path).encode("longer than four").tolist() == list(b"longer than four")


def test_the_models_own_special_tokens_are_added_and_shown() -> None:
    backend = byte_level()
    backend.add_special_tokens(["<s>"])
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    tokenizer = Tokenizer(backend)
    assert tokenizer.encode("a").tolist() == [256, 97]
    assert tokenizer.decode([256, 97]) == "<s>a"
    assert tokenizer.token_text(256) == "<s>"
    assert tokenizer.size == 257


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff\xfe\xfa", b'{"version": "1.0"}'])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(EStreamError, match=r"tokenizer\.json .*; copy the model's tokenizer\.json there"):
        Tokenizer.from_files(tmp_path)
