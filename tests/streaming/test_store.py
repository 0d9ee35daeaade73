"""Opening stores: what the manifest promises is checked, and every kind of damage is one clear sentence."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.streaming import Store
from estream_lab.streaming.loader import verify_records
from estream_lab.streaming.store import manifest_checksum
from tests.stores import SPEC, synthetic_store


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return synthetic_store(tmp_path)


def edit_manifest(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    manifest["checksum"] = manifest_checksum(manifest)  # the changes are to be found by their own checks
    (path / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("was", "becomes"), [('"rope_theta": 10000.0', '"rope_theta": 10001.0'), ("[0, 1, 2", "[1, 0, 2")]
)
def test_a_changed_number_in_the_manifest_is_found(store_path: Path, was: str, becomes: str) -> None:
    text = (store_path / "manifest.json").read_text()
    assert was in text
    (store_path / "manifest.json").write_text(text.replace(was, becomes, 1))
    with pytest.raises(EStreamError, match="was changed since it was packed"):
        Store(store_path)


def test_an_opened_store_knows_its_model_and_records(store_path: Path) -> None:
    store = Store(store_path)
    assert store.spec == SPEC and store.layout == "q4-32x32"
    assert store.experts_bytes == store.experts_path.stat().st_size == 3 * 10 * store.stride
    layer = store.layers[1]
    assert layer.offset == 10 * store.stride and layer.groups(4) == 3
    assert layer.group_experts(2, 4).tolist() == [8, 9]
    assert layer.group_of(4).tolist() == [0] * 4 + [1] * 4 + [2] * 2


def test_dense_tensors_come_back_unchanged(store_path: Path) -> None:
    source = SyntheticSource(SPEC, 0)
    with Store(store_path).dense_reader() as read:
        for name in SPEC.dense_shapes():
            assert np.array_equal(read(name), source.dense(name))


def test_another_expert_order_changes_groups_not_records(store_path: Path) -> None:
    edit_manifest(store_path, lambda m: m["layers"][0].update(order=[3, 1, 0, 2, 4, 5, 6, 7, 8, 9]))
    layer = Store(store_path).layers[0]
    assert layer.group_experts(0, 2).tolist() == [3, 1] and layer.group_of(2)[[3, 1, 0, 2]].tolist() == [0, 0, 1, 1]


def absurd(manifest: dict[str, Any]) -> None:
    manifest["model"]["experts"] = manifest["model"]["router"]["experts"] = 10**13


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no such folder": (lambda p: shutil.rmtree(p), "no such folder"),
    "no manifest": (lambda p: (p / "manifest.json").unlink(), "has no manifest.json"),
    "a pipe for a manifest": (
        lambda p: ((p / "manifest.json").unlink(), os.mkfifo(p / "manifest.json")),
        "can't read .*manifest.json: it is no regular file",
    ),
    "manifest cut off": (lambda p: (p / "manifest.json").write_text('{"format": "estream-st'), "not valid JSON"),
    "foreign manifest": (
        lambda p: (p / "manifest.json").write_text('{"name": "x"}'),
        "not the manifest of an expert store",
    ),
    "another version": (
        lambda p: edit_manifest(p, lambda m: m.update(version=3)),
        "format version 3.*reads versions 1 and 2",
    ),
    "no classes": (lambda p: edit_manifest(p, lambda m: m.pop("classes")), "damaged"),
    "a class that is not listed": (
        lambda p: edit_manifest(p, lambda m: m["layers"][0].update({"class": 4})),
        "damaged",
    ),
    "no permutation": (lambda p: edit_manifest(p, lambda m: m["layers"][2].update(order=[0] * 10)), "no permutation"),
    "too few checksums": (lambda p: edit_manifest(p, lambda m: m["layers"][0]["checksums"].pop()), "9 checksums"),
    "a layer too few": (lambda p: edit_manifest(p, lambda m: m["layers"].pop()), "2 layers"),
    "an unknown model key": (lambda p: edit_manifest(p, lambda m: m["model"].update(colour=1)), "unknown key 'colour'"),
    "an order of fractions": (
        lambda p: edit_manifest(p, lambda m: m["layers"][0].update(order=[i + 0.5 for i in range(10)])),
        "whole numbers",
    ),
    "an order beyond 32 bits": (
        lambda p: edit_manifest(p, lambda m: m["layers"][0].update(order=[2**40] * 10)),
        "no permutation",
    ),
    "an absurd number of experts": (lambda p: edit_manifest(p, absurd), "no permutation"),
    "a class from the end": (lambda p: edit_manifest(p, lambda m: m["layers"][0].update({"class": -1})), "class -1"),
    "a negative offset": (lambda p: edit_manifest(p, lambda m: m["layers"][0].update(offset=-4096)), "offset -4096"),
    "an offset off a page": (lambda p: edit_manifest(p, lambda m: m["layers"][0].update(offset=100)), "offset 100"),
    "an offset as text": (lambda p: edit_manifest(p, lambda m: m["layers"][0].update(offset="0")), "whole numbers"),
    "layers that overlap": (lambda p: edit_manifest(p, lambda m: m["layers"][0].update(offset=4096)), "overlap"),
    "records of another model": (
        lambda p: edit_manifest(p, lambda m: m["classes"][0]["shape"].update(hidden=32, ffn=64)),
        "for a model of 64 x 32",
    ),
    "a tokenizer that is no text": (lambda p: edit_manifest(p, lambda m: m.update(tokenizer={})), "no text"),
    "a bottomless manifest": (lambda p: (p / "manifest.json").write_text("[" * 100_000), "not valid JSON"),
    "no expert file": (lambda p: (p / "experts.bin").unlink(), "experts.bin can't be read"),
    "short expert file": (lambda p: (p / "experts.bin").open("r+b").truncate(4096), "has 4096 bytes where"),
    "short dense file": (lambda p: (p / "dense.safetensors").open("r+b").truncate(40), "has 40 bytes where"),
}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused_by_name(store_path: Path, kind: str) -> None:
    damage, message = DAMAGE[kind]
    damage(store_path)
    with pytest.raises(EStreamError, match=message):
        Store(store_path)


def test_an_unfinished_pack_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "m.estream.partial").mkdir()
    with pytest.raises(EStreamError, match="its packing was not finished"):
        Store(tmp_path / "m.estream")


def flip_a_bit(path: Path, at: int) -> Store:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    return Store(path.parent)


def test_a_flipped_bit_in_a_record_is_found(store_path: Path) -> None:
    assert verify_records(Store(store_path)) == 30
    store = flip_a_bit(store_path / "experts.bin", 2 * Store(store_path).stride + 5)
    with pytest.raises(EStreamError, match="expert 2 of layer 0 .* wrong checksum"):
        verify_records(store)


def test_a_dense_tensor_that_the_file_lacks_is_named(store_path: Path) -> None:
    edit_manifest(store_path, lambda m: m["dense"]["checksums"].update({"layers.9.router.weight": "00"}))
    with pytest.raises(EStreamError, match=r"no dense tensor 'layers\.9\.router\.weight'"):
        Store(store_path).verify_dense()


def test_a_flipped_bit_in_a_dense_tensor_is_found(store_path: Path) -> None:
    Store(store_path).verify_dense()
    store = flip_a_bit(store_path / "dense.safetensors", -9)
    with pytest.raises(EStreamError, match="'head.weight' .* wrong checksum"):
        store.verify_dense()
