"""Packing in an order: records where it says, its origin in the manifest, by id the same bytes as ever."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xxhash

from estream_lab.errors import EStreamError
from estream_lab.experts.order import ExpertOrder, by_popularity
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.routing import Routes, synthetic_routes
from estream_lab.streaming import Store
from estream_lab.streaming import pack as pack_module
from estream_lab.streaming.loader import verify_records
from estream_lab.streaming.pack import pack, pack_synthetic
from tests.golden_compare import TINY_MOE
from tests.stores import SPEC
from tests.streaming.test_pack import files, write_checkpoint


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("quant", "experts", "dense", "manifest"),
    [("q4_0", "572ca89c4b136a2f", "e4bfdd88cfe0930c", "7d892f719c18675a"),
     ("f32", "a1005a03652c1c69", "e4bfdd88cfe0930c", "78d1f40600454c79")],
)  # fmt: skip
def test_a_store_by_id_has_the_bytes_that_it_always_had(
    tmp_path: Path, quant: str, experts: str, dense: str, manifest: str
) -> None:
    """Recorded before stores had other orders: xxh3-64 of the shipped model's files, the program's version left out."""
    path = pack(TINY_MOE, tmp_path / "m.estream", quant=quant, progress=False).path
    assert xxhash.xxh3_64_hexdigest((path / "experts.bin").read_bytes()) == experts
    assert xxhash.xxh3_64_hexdigest((path / "dense.safetensors").read_bytes()) == dense
    content = json.loads((path / "manifest.json").read_bytes())
    del content["checksum"], content["origin"]["packed_by"]
    assert xxhash.xxh3_64_hexdigest(json.dumps(content, sort_keys=True).encode()) == manifest


def routes(seed: int) -> dict[int, Routes]:
    return {layer: synthetic_routes(40, SPEC.experts, 2, alpha=1.0, seed=seed + layer) for layer in range(SPEC.layers)}


def expert_order(name: str = "popularity", seed: int = 0) -> ExpertOrder:
    return ExpertOrder.of(name, routes(seed), SPEC.layers, SPEC.experts, 2, "r.csv")


def test_records_lie_in_the_order_and_the_manifest_says_where_it_comes_from(checkpoint: Path, tmp_path: Path) -> None:
    order = expert_order()
    by_id = Store(pack(checkpoint, tmp_path / "id.estream", progress=False).path)
    store = Store(pack(checkpoint, tmp_path / "m.estream", order=order, progress=False).path)
    stride = store.stride
    for layer in range(SPEC.layers):
        plain, placed = by_id.layers[layer], store.layers[layer]
        assert placed.order.tolist() == order.layers[layer].tolist() != list(range(SPEC.experts))
        before, after = (
            np.fromfile(s.experts_path, np.uint8, stride * SPEC.experts, offset=s.layers[layer].offset)
            .reshape(SPEC.experts, stride)
            for s in (by_id, store)
        )  # fmt: skip
        assert np.array_equal(after, before[placed.order])
        assert placed.checksums == tuple(plain.checksums[expert] for expert in placed.order)
    assert verify_records(store) == SPEC.layers * SPEC.experts
    assert store.origin["order"] == order.to_json() and "order" not in by_id.origin
    synthetic = pack_synthetic(SyntheticSource(SPEC), tmp_path / "s.estream", order=order, progress=False).path
    assert files(synthetic)["experts.bin"] == files(store.path)["experts.bin"]


def test_a_partial_store_of_another_order_is_refused(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, order = tmp_path / "m.estream", expert_order()
    pack(checkpoint, tmp_path / "whole.estream", order=order, progress=False)
    monkeypatch.setattr(pack_module, "write_dense", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        pack(checkpoint, output, order=order, progress=False)
    monkeypatch.undo()
    reverse = ExpertOrder.of(lambda r, e: by_popularity(r, e)[::-1], routes(0), SPEC.layers, SPEC.experts, 2, "r.csv")
    others = (None, expert_order("co-activation"), expert_order(seed=9), replace(reverse, name="popularity"))
    for other in others:
        with pytest.raises(EStreamError, match="begun from another checkpoint or with other settings"):
            pack(checkpoint, output, order=other, progress=False)
    assert pack(checkpoint, output, order=expert_order(), progress=False).resumed_layers == SPEC.layers
    assert files(output) == files(tmp_path / "whole.estream")


def test_an_order_of_another_model_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    smaller = ExpertOrder.of("id", {0: routes(0)[0]}, 1, SPEC.experts, 2, "r.csv")
    with pytest.raises(EStreamError, match="the order 'id' is not one of 3 layers of 10 experts"):
        pack(checkpoint, tmp_path / "m.estream", order=smaller, progress=False)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"]
