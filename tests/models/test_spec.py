import json
from dataclasses import replace
from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.models import ModelSpec
from estream_lab.routing import RouterSpec

SPEC = ModelSpec(
    family="olmoe",
    hidden=64,
    layers=3,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocab=256,
    context=1024,
    experts=8,
    ffn=32,
    rms_eps=1e-5,
    rope_theta=10000.0,
    router=RouterSpec(experts=8, top_k=2, renormalise=False),
    tied=False,
)


def test_json_round_trip() -> None:
    assert ModelSpec.from_json(json.loads(json.dumps(SPEC.to_json()))) == SPEC


@pytest.mark.parametrize("key", sorted(SPEC.to_json()))
def test_a_missing_key_is_named(key: str) -> None:
    values = SPEC.to_json()
    del values[key]
    with pytest.raises(EStreamError, match=f"lacks '{key}'; pack the checkpoint again"):
        ModelSpec.from_json(values)


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(EStreamError, match="unknown key 'hiden'"):
        ModelSpec.from_json({**SPEC.to_json(), "hiden": 64})


@pytest.mark.parametrize(
    "router",
    [None, [], {}, {"experts": 8}, {**SPEC.router.to_json(), "top_k": 9}, {**SPEC.router.to_json(), "more": 1}],
)
def test_a_router_that_makes_no_sense_is_refused(router: Any) -> None:
    with pytest.raises(EStreamError, match="the model spec"):
        ModelSpec.from_json({**SPEC.to_json(), "router": router})


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": 0},
        {"layers": -1},
        {"kv_heads": 3},
        {"head_dim": 15},
        {"rms_eps": 0.0},
        {"rope_theta": float("nan")},
        {"experts": 9},
        {"hidden": "64"},
        {"hidden": 64.0},
        {"family": 5},
        {"context": float("inf")},
        {"rms_eps": float("inf")},
        {"rope_theta": 10**400},
        {"rms_eps": True},
        {"tied": 1},
        {"tied": "false"},
    ],
)
def test_numbers_that_contradict_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(EStreamError):
        ModelSpec.from_json({**SPEC.to_json(), **change})


def test_a_tied_model_lists_no_head() -> None:
    assert SPEC.dense_shapes()["head.weight"] == (256, 64)
    tied = replace(SPEC, tied=True).dense_shapes()
    assert "head.weight" not in tied
    assert set(SPEC.dense_shapes()) - set(tied) == {"head.weight"}
