"""Variants of the shipped model: read otherwise, or scaled without another result."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.evaluate.cases import EXACT, FP16
from estream_lab.evaluate.outliers import open_variant
from estream_lab.evaluate.variants import Variant, write_variant
from estream_lab.experts.switched import switched
from estream_lab.streaming import Store

SHIPPED = Path(__file__).parents[2] / "data" / "tiny_moe" / "checkpoint"


def output(store: Store, on: object) -> bytes:
    with PrefillEngine.open(store, executor=switched(on)) as engine:  # type: ignore[arg-type]
        return engine.prefill(np.arange(32, dtype=np.int32) + 40, positions="all").output.tobytes()


def test_scaling_changes_no_bit_while_nothing_is_rounded_to_fp16(tmp_path: Path) -> None:
    plain = open_variant(SHIPPED, tmp_path, Variant())
    for variant in (Variant(swiglu=8), Variant(residual=12)):
        other = open_variant(SHIPPED, tmp_path, variant)
        assert output(other, EXACT) == output(plain, EXACT)
    assert output(other, FP16) != output(plain, FP16)


def test_a_renormalising_variant_differs_in_its_weights_alone(tmp_path: Path) -> None:
    plain, other = (open_variant(SHIPPED, tmp_path, Variant(renormalise=on)) for on in (False, True))
    assert other.spec == replace(plain.spec, router=replace(plain.spec.router, renormalise=True))
    routes = []
    for each in (plain, other):
        with PrefillEngine.open(each) as engine:
            routes.append(engine.prefill(np.arange(32) + 40).routes[0])
    np.testing.assert_array_equal(routes[0].expert, routes[1].expert)
    np.testing.assert_allclose(routes[1].weight.reshape(-1, 2).sum(axis=1), 1, rtol=1e-6)
    assert routes[0].weight.reshape(-1, 2).sum(axis=1).max() < 0.999


def test_variants_of_other_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match="exists already"):
        write_variant(SHIPPED, tmp_path, Variant())
    (tmp_path / "other").mkdir()
    for file in SHIPPED.iterdir():
        (tmp_path / "other" / file.name).write_bytes(file.read_bytes())
    config = json.loads((SHIPPED / "config.json").read_text()) | {"model_type": "mixtral"}
    (tmp_path / "other" / "config.json").write_text(json.dumps(config))
    with pytest.raises(EStreamError, match="no untied OLMoE checkpoint"):
        write_variant(tmp_path / "other", tmp_path / "new", Variant())


def test_a_variant_with_more_experts_a_token_differs_in_nothing_else(tmp_path: Path) -> None:
    plain, other = (open_variant(SHIPPED, tmp_path, Variant(top_k=k)) for k in (None, 4))
    assert plain.spec.router.top_k == 2
    assert other.spec == replace(plain.spec, router=replace(plain.spec.router, top_k=4))


@pytest.mark.parametrize("name", ["checkpoint", "tiny-7"])
def test_a_variants_store_names_the_checkpoint_that_it_is_of(tmp_path: Path, name: str) -> None:
    copy = tmp_path / "mine" / name
    copy.mkdir(parents=True)
    for file in SHIPPED.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    store = open_variant(copy, tmp_path, Variant(swiglu=3))
    assert store.origin["checkpoint"] == {"checkpoint": "mine", "tiny-7": "tiny-7"}[name]
