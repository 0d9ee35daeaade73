from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.models import Checkpoint, ExpertSource

from .checkpoints import EXPERTS, FFN, HIDDEN, LAYERS, packed, tensors, write, write_sharded

UP = "model.layers.1.mlp.experts.2.up_proj.weight"


def expert_weights(layer: int, expert: int) -> tuple[np.ndarray, ...]:
    at = f"model.layers.{layer}.mlp.experts.{expert}."
    return tuple(tensors()[f"{at}{name}_proj.weight"] for name in ("gate", "up", "down"))


def assert_reads_every_weight(source: ExpertSource) -> None:
    plain = tensors()
    assert np.array_equal(source.dense("embed.weight"), plain["model.embed_tokens.weight"])
    assert np.array_equal(source.dense("head.weight"), plain["lm_head.weight"])
    assert np.array_equal(
        source.dense("layers.1.expert_norm.weight"), plain["model.layers.1.post_attention_layernorm.weight"]
    )
    assert np.array_equal(source.dense("layers.0.router.weight"), plain["model.layers.0.mlp.gate.weight"])
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            for ours, theirs in zip(source.expert(layer, expert), expert_weights(layer, expert), strict=True):
                assert np.array_equal(ours, theirs)


def test_a_tensor_for_each_projection(tmp_path: Path) -> None:
    with ExpertSource.open(write(tmp_path)) as source:
        assert source.packed == (False, False)
        assert_reads_every_weight(source)


def test_experts_packed_together(tmp_path: Path) -> None:
    with ExpertSource.open(write(tmp_path, packed(tensors()))) as source:
        assert source.packed == (True, True)
        assert_reads_every_weight(source)


def test_an_expert_whose_parts_lie_in_different_shards(tmp_path: Path) -> None:
    shards: list[dict[str, np.ndarray]] = [{}, {}, {}]
    for name, weights in tensors().items():
        shards[0 if "gate_proj" in name else 1 if "up_proj" in name else 2][name] = weights
    with ExpertSource.open(write_sharded(tmp_path, shards)) as source:
        assert_reads_every_weight(source)


def test_an_open_checkpoint_is_taken_as_it_is(tmp_path: Path) -> None:
    with Checkpoint(write(tmp_path)) as checkpoint:
        assert_reads_every_weight(ExpertSource.open(checkpoint))


def test_every_dense_weight_has_the_shape_that_the_spec_says(tmp_path: Path) -> None:
    with ExpertSource.open(write(tmp_path)) as source:
        shapes = source.spec.dense_shapes()
        assert source.dense_names == tuple(shapes)
        assert {name: source.dense(name).shape for name in source.dense_names} == shapes
        assert len(source.dense_names) + 3 * LAYERS * EXPERTS == len(source.checkpoint.names)


def test_a_tied_model_has_no_head(tmp_path: Path) -> None:
    weights = tensors()
    del weights["lm_head.weight"]
    with ExpertSource.open(write(tmp_path, weights, tie_word_embeddings=True)) as source:
        assert "head.weight" not in source.dense_names


@pytest.mark.parametrize("name", sorted(tensors()))
def test_any_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    weights = tensors()
    del weights[name]
    with pytest.raises(EStreamError, match=f"lacks tensor {name}; give a complete checkpoint"):
        ExpertSource.open(write(tmp_path, weights))


@pytest.mark.parametrize("name", ["model.layers.0.mlp.experts.gate_up_proj", "model.layers.1.mlp.experts.down_proj"])
def test_a_missing_packed_tensor_is_refused(tmp_path: Path, name: str) -> None:
    weights = packed(tensors())
    del weights[name]
    with pytest.raises(EStreamError, match="lacks tensor"):
        ExpertSource.open(write(tmp_path, weights))


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.mlp.experts.3.up_proj.weight",
        "model.layers.2.mlp.gate.weight",
        "model.layers.0.mlp.shared_expert.up_proj.weight",
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.1.mlp.experts.down_proj",
        "something",
    ],
)
def test_any_tensor_of_unknown_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(EStreamError, match=f"holds the unknown tensor {name}; correct config.json"):
        ExpertSource.open(write(tmp_path, {**tensors(), name: np.zeros(4, np.float32)}))


def test_experts_in_both_forms_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match=r"holds the unknown tensor .* and 17 more"):
        ExpertSource.open(write(tmp_path, {**tensors(), **packed(tensors())}))


def test_experts_under_another_name_are_both_missing_and_unknown(tmp_path: Path) -> None:
    weights = {name.replace(".gate_proj", ".w1"): array for name, array in tensors().items()}
    with pytest.raises(
        EStreamError, match=r"lacks tensor .*gate_proj.* and 5 more; it holds the unknown tensor .*\.w1\."
    ):
        ExpertSource.open(write(tmp_path, weights))


@pytest.mark.parametrize(
    "config",
    [
        {"intermediate_size": FFN * 2},
        {"hidden_size": HIDDEN * 2},
        {"num_hidden_layers": LAYERS + 1},
        {"num_hidden_layers": LAYERS - 1},
        {"num_experts": EXPERTS + 1},
        {"num_experts": EXPERTS - 1},
        {"num_key_value_heads": 4},
        {"num_attention_heads": 8},
        {"vocab_size": 41},
        {"tie_word_embeddings": True},
    ],
)
@pytest.mark.parametrize("form", [dict, packed])
def test_a_config_that_contradicts_the_weights_is_refused(tmp_path: Path, config: dict[str, Any], form: Any) -> None:
    with pytest.raises(EStreamError, match=r"shape|lacks|unknown"):
        ExpertSource.open(write(tmp_path, form(tensors()), **config))


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_experts"])
@pytest.mark.parametrize("count", [10**9, 10**30])
def test_an_absurd_count_is_refused_without_listing_its_names(tmp_path: Path, key: str, count: int) -> None:
    with pytest.raises(EStreamError, match=f"sets {key} to {count}, more than the checkpoint has tensors"):
        ExpertSource.open(write(tmp_path, tensors(), **{key: count}))


@pytest.mark.parametrize("name", [UP, "model.norm.weight"])
def test_a_transposed_or_flattened_tensor_is_refused(tmp_path: Path, name: str) -> None:
    weights = tensors()
    weights[name] = np.ascontiguousarray(weights[name].T) if weights[name].ndim == 2 else weights[name][None]
    with pytest.raises(EStreamError, match=f"tensor {name} in .* has shape .* where config.json promises"):
        ExpertSource.open(write(tmp_path, weights))


def test_a_dtype_that_is_not_read_is_refused_before_any_work(tmp_path: Path) -> None:
    weights = tensors()
    weights[UP] = weights[UP].astype(np.int8)
    with pytest.raises(EStreamError, match=f"tensor {UP} in .* is stored as I8"):
        ExpertSource.open(write(tmp_path, weights))


@pytest.mark.parametrize("form", [dict, packed])
def test_weights_that_are_not_finite_are_refused_when_read(tmp_path: Path, form: Any) -> None:
    weights = tensors()
    weights[UP][3, 4] = np.nan
    with ExpertSource.open(write(tmp_path, form(weights))) as source:
        source.expert(1, 1)
        with pytest.raises(EStreamError, match=r"tensor model\.layers\.1\.mlp\.experts\..* holds NaN or infinite"):
            source.expert(1, 2)


def test_another_architecture_is_refused_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match=r"config\.json describes a model of type 'mixtral'"):
        ExpertSource.open(write(tmp_path, model_type="mixtral"))


@pytest.mark.parametrize(("layer", "expert"), [(-1, 0), (LAYERS, 0), (0, -1), (0, EXPERTS)])
def test_an_expert_that_does_not_exist(tmp_path: Path, layer: int, expert: int) -> None:
    with ExpertSource.open(write(tmp_path)) as source, pytest.raises(IndexError):
        source.expert(layer, expert)
