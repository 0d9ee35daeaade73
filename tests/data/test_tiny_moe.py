"""The shipped small MoE is an ordinary, small, finite checkpoint, and its recorded figures hold.

Needs neither torch nor transformers: it reads the files as any consumer would.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2] / "data" / "tiny_moe"
CHECKPOINT = ROOT / "checkpoint"
MAX_CHECKPOINT_BYTES = 12_000_000
DOMAINS = ("text", "code")


def read_json(path: Path) -> dict[str, Any]:
    """One parsed JSON file."""
    parsed: dict[str, Any] = json.loads(path.read_text())
    return parsed


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    """The checkpoint's ``config.json``."""
    return read_json(CHECKPOINT / "config.json")


@pytest.fixture(scope="module")
def tensors() -> dict[str, npt.NDArray[np.float16]]:
    """All tensors of the checkpoint by name."""
    return dict(load_file(CHECKPOINT / "model.safetensors"))


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """The committed figures."""
    return read_json(ROOT / "results.json")


def expected_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The names and shapes of an OLMoE checkpoint with one tensor an expert."""
    hidden, width = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (config["vocab_size"], hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        for name in ("input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm"):
            shapes[f"{prefix}.{name}.weight"] = (hidden,)
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            shapes[f"{prefix}.self_attn.{name}.weight"] = (hidden, hidden)
        shapes[f"{prefix}.mlp.gate.weight"] = (config["num_experts"], hidden)
        for expert in range(config["num_experts"]):
            shapes[f"{prefix}.mlp.experts.{expert}.gate_proj.weight"] = (width, hidden)
            shapes[f"{prefix}.mlp.experts.{expert}.up_proj.weight"] = (width, hidden)
            shapes[f"{prefix}.mlp.experts.{expert}.down_proj.weight"] = (hidden, width)
    return shapes


def test_checkpoint_is_at_most_twelve_megabytes(results: dict[str, Any]) -> None:
    """The whole folder counts, and the recorded size is the real one."""
    size = sum(path.stat().st_size for path in CHECKPOINT.iterdir())
    assert size <= MAX_CHECKPOINT_BYTES
    assert size == results["checkpoint_bytes"]


def test_architecture_is_olmoe_with_the_tokens_of_a_byte(config: dict[str, Any]) -> None:
    """Any loader picks the OLMoE class; the vocabulary is the 256 byte values."""
    assert config["architectures"] == ["OlmoeForCausalLM"]
    assert config["model_type"] == "olmoe"
    assert config["vocab_size"] == 256
    assert config["norm_topk_prob"] is False
    assert config["tie_word_embeddings"] is False


def test_tensor_names_and_shapes_are_those_of_olmoe(
    config: dict[str, Any], tensors: dict[str, npt.NDArray[np.float16]]
) -> None:
    """One tensor an expert, nothing missing and nothing extra."""
    assert {name: tensor.shape for name, tensor in tensors.items()} == expected_shapes(config)


def test_expert_shapes_are_whole_quantization_blocks(config: dict[str, Any]) -> None:
    """Both dimensions of an expert divide by 32, the block of Q4_0 and Q8_0."""
    assert config["hidden_size"] % 32 == 0
    assert config["intermediate_size"] % 32 == 0


def test_weights_are_finite_float16(tensors: dict[str, npt.NDArray[np.float16]]) -> None:
    """No weight overflowed when it was rounded to float16, and none is a constant."""
    for name, tensor in tensors.items():
        assert tensor.dtype == np.float16, name
        assert np.isfinite(tensor).all(), name
        assert tensor.astype(np.float32).std() > 0, name


def test_parameter_count_is_the_recorded_one(
    tensors: dict[str, npt.NDArray[np.float16]], results: dict[str, Any]
) -> None:
    """About five million parameters."""
    count = sum(tensor.size for tensor in tensors.values())
    assert count == results["parameters"]
    assert 4_500_000 <= count <= 5_600_000


def test_tokenizer_maps_text_to_its_bytes() -> None:
    """Ids are the UTF-8 bytes, and decoding returns the text; every valid UTF-8 byte value occurs."""
    tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == 256
    # U+0000-U+07FF use each continuation byte and lead bytes C2-DF; the rest adds E0-EF and F0-F4.
    points = [*range(0x800), *range(0x800, 0xD800, 0x400), *range(0xE000, 0x110000, 0x400)]
    text = "".join(map(chr, points)) + "In the beginning\n\tdef f(x):  return  x\r\n"
    encoded = text.encode()
    # C0, C1 and F5-FF occur in no valid UTF-8.
    assert set(encoded) == set(range(256)) - {0xC0, 0xC1, *range(0xF5, 0x100)}
    assert tokenizer.encode(text).ids == list(encoded)
    assert tokenizer.decode(list(encoded)) == text


def test_tokenizer_has_one_token_for_each_byte_value() -> None:
    """Also the byte values that no valid text contains have their own id."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(256 + rank): byte for rank, byte in enumerate(other)})
    model = read_json(CHECKPOINT / "tokenizer.json")["model"]
    assert model["vocab"] == alphabet
    assert model["merges"] == []


def test_training_recipe_of_the_checkpoint_is_the_first_run_recorded(results: dict[str, Any]) -> None:
    """The figures belong to the shipped weights."""
    recipe = read_json(CHECKPOINT / "training.json")["recipe"]
    assert recipe == results["runs"][0]["recipe"]
    assert recipe["seed"] == results["shipped_seed"]


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_seed_reaches_the_bits_per_byte(results: dict[str, Any], domain: str) -> None:
    """Each seed beats the five-minute recipe's figures, at its window of 256, and ``gzip -9``."""
    target = {"text": 2.09, "code": 1.91}
    assert results["target_bits_per_byte"] == target
    for run in results["runs"]:
        reached = run["bits_per_byte"][domain]["256"]
        assert reached <= target[domain]
        assert reached < results["gzip_bits_per_byte"][domain]
        # Positions up to the whole context are trained: more context must help.
        assert run["bits_per_byte"][domain]["1024"] < reached


def test_three_seeds_route_the_domains_apart(results: dict[str, Any]) -> None:
    """In the mean over three seeds, half of the layers are 1.5 times as far apart as in the untrained control."""
    runs = results["runs"]
    assert len({run["recipe"]["seed"] for run in runs}) == 3
    trained = np.array([run["trained"]["tv_text_code"] for run in runs])  # [seeds, layers]
    control = np.array([run["control"]["tv_text_code"] for run in runs])
    ratio = trained.mean(axis=0) / control.mean(axis=0)
    assert np.allclose(results["over_seeds"]["tv_ratio"], ratio, rtol=1e-3)
    assert (ratio >= 1.5).sum() >= trained.shape[1] / 2


def test_shipped_model_routes_the_domains_apart(results: dict[str, Any]) -> None:
    """The same holds for the shipped seed alone, and in its last layer for every seed."""
    ratio = np.array([run["tv_ratio"] for run in results["runs"]])  # [seeds, layers]
    assert (ratio[0] >= 1.5).sum() >= ratio.shape[1] / 2
    assert (ratio[:, -1] >= 1.5).all()


def test_load_is_spread_in_every_layer(config: dict[str, Any], results: dict[str, Any]) -> None:
    """The per-layer loss keeps at least three quarters of the experts in use over the mixed domains."""
    for run in results["runs"]:
        assert min(run["trained"]["effective_experts_mixed"]) >= 0.75 * config["num_experts"]


@pytest.mark.parametrize("domain", DOMAINS)
def test_heldout_sample_is_small_valid_text(domain: str) -> None:
    """Whole lines of UTF-8, enough for several windows of the whole context."""
    data = (ROOT / "heldout" / f"{domain}.txt").read_bytes()
    assert 60_000 <= len(data) <= 65_536
    data.decode("utf-8")
    assert data.endswith(b"\n")


@pytest.mark.parametrize("domain", DOMAINS)
def test_sources_name_license_and_checksums(domain: str) -> None:
    """Each corpus can be rebuilt and checked."""
    source = read_json(ROOT / "sources.json")[domain]
    assert source["license"] in ("public domain", "PSF-2.0")
    for digest in (source["corpus_sha256"], *(archive["sha256"] for archive in source["archives"])):
        assert len(bytes.fromhex(digest)) == hashlib.sha256().digest_size


def test_readme_states_the_recorded_figures(results: dict[str, Any]) -> None:
    """The tables are what report.py makes of results.json."""
    spec = importlib.util.spec_from_file_location("tiny_moe_report", ROOT / "report.py")
    assert spec is not None and spec.loader is not None
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    assert report.figures(results) in (ROOT / "README.md").read_text()
