"""Sizes of the five models, held to what is published of them."""

import pytest

from estream_lab.experts.shape import ExpertShape, RecordClass
from estream_lab.models.synthetic import synthetic_spec
from estream_lab.simulate.models import MODELS, ModelShape

PUBLISHED = {  # W_e in bytes, one layer in MiB, all experts in GiB, weights that aren't a routed expert's in 10^9
    "olmoe": (3_538_944, 216, 3.375, 0.477),
    "lfm2": (6_193_152, 189, 4.061, 0.589),  # "0.6 to 0.7"
    "deepseek": (4_866_048, 297, 7.541, 1.312),
    "qwen3": (2_654_208, 324, 15.188, 1.541),
    "mixtral": (99_090_432, 756, 23.625, 1.605),
}


@pytest.mark.parametrize("name", MODELS)
def test_sizes_are_the_published_ones(name: str) -> None:
    model, (expert, layer, experts, others) = MODELS[name], PUBLISHED[name]
    assert model.expert_bytes == expert
    assert model.experts * model.expert_bytes == layer << 20
    assert model.layers * layer / 1024 == pytest.approx(experts, abs=6e-4)
    assert model.non_expert_weights / 1e9 == pytest.approx(others, abs=6e-4)


def test_operations_of_a_prompt() -> None:
    """OLMoE's layer by hand: four square projections and the router; scores and values of T·(T + 1)/2 pairs."""
    olmoe = MODELS["olmoe"]
    assert olmoe.layer_flops(3) == 2 * 3 * (4 * 2048**2 + 64 * 2048) + 2 * 6 * 2 * 2048
    assert olmoe.lead_flops(3) == 0
    assert olmoe.route_flops == 6 * 2048 * 1024
    assert MODELS["deepseek"].lead_flops(1) > 2 * 3 * 2048 * 10_944


def test_a_stores_model_has_the_same_sizes() -> None:
    spec = synthetic_spec(hidden=2048, ffn=1024, layers=16, experts=64, top_k=8, heads=16, vocab=50304)
    record = RecordClass.of(ExpertShape(2048, 1024, ("q4-32x32",) * 3))
    assert ModelShape.of_spec(spec, "OLMoE-1B-7B", record.stride) == MODELS["olmoe"]
