"""Stores with quantised or bf16 dense weights: every kind of damage is one clear sentence."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.streaming import Store
from estream_lab.streaming.dense_file import float32
from tests.stores import SPEC, dense_store
from tests.streaming.test_store import edit_manifest, flip_a_bit

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return dense_store(tmp_path, "q8_0")


DAMAGE: dict[str, tuple[Change, str]] = {
    "an unknown layout": (
        lambda m: m["dense"]["layouts"].update({"head.weight": "q6-16x16"}),
        r"dense\.safetensors holds 'head\.weight' in the layout 'q6-16x16', and this program reads q8-32x32, q4-32x32",
    ),
    "a layout of a router": (
        lambda m: m["dense"]["layouts"].update({"layers.0.router.weight": "q8-32x32"}),
        r"layers\.0\.router\.weight",
    ),
    "a layout of a vector": (lambda m: m["dense"]["layouts"].update({"norm.weight": "q8-32x32"}), "'norm.weight'"),
    "a layout of nothing": (lambda m: m["dense"]["layouts"].update(x="q8-32x32"), "'x', which is no matrix"),
    "no layouts": (lambda m: m["dense"].pop("layouts"), "layouts of dense tensors"),
    "layouts that are none": (lambda m: m["dense"].update(layouts=7), "damaged"),
    "layouts in an old version": (lambda m: m.update(version=1), "layouts of dense tensors"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_manifest_that_lies_of_layouts_is_refused(path: Path, kind: str) -> None:
    change, message = DAMAGE[kind]
    edit_manifest(path, change)
    with pytest.raises(EStreamError, match=message):
        Store(path)


def test_a_tensor_of_another_layout_than_the_manifest_says_is_named(path: Path) -> None:
    edit_manifest(path, lambda m: m["dense"]["layouts"].update({"head.weight": "q4-32x32"}))
    with pytest.raises(EStreamError, match=r"'head\.weight' .* is U8 of shape .* in 6528 bytes, not what the"):
        Store(path).verify_dense()


def test_a_quantised_tensor_that_the_manifest_takes_for_numbers_is_named(path: Path) -> None:
    edit_manifest(path, lambda m: m["dense"]["layouts"].pop("head.weight"))
    with pytest.raises(EStreamError, match=r"head\.weight .* is stored as U8"):
        Store(path).verify_dense()


def edit_header(path: Path, change: Change) -> Store:
    """Let the header of the store's dense file say something else; its length stays."""
    file = path / "dense.safetensors"
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    written = json.dumps(header, separators=(",", ":")).encode().ljust(length)
    assert len(written) == length
    file.write_bytes(content[:8] + written + content[8 + length :])
    return Store(path)


def test_a_damaged_dtype_is_named_before_memory_is_planned(tmp_path: Path) -> None:
    store = edit_header(dense_store(tmp_path, "f32"), lambda h: h["head.weight"].update(dtype="I32"))
    with pytest.raises(EStreamError, match=r"head\.weight .* is stored as I32"):
        _ = store.dense.stored


def test_a_quantised_tensor_whose_bytes_are_not_those_of_its_shape_is_named(path: Path) -> None:
    def move_a_border(header: dict[str, Any]) -> None:
        entries = sorted((e for e in header.values() if "dtype" in e), key=lambda entry: entry["data_offsets"][0])
        first, second = next(pair for pair in pairwise(entries) if {entry["dtype"] for entry in pair} == {"U8"})
        first["data_offsets"][1] -= 32
        second["data_offsets"][0] -= 32

    with pytest.raises(EStreamError, match=r"tensor '.*\.weight' .* bytes, not what the manifest says"):
        edit_header(path, move_a_border).verify_dense()


@pytest.mark.parametrize("kind", ["f32", "bf16", "q8_0", "q4_0"])
def test_a_flipped_bit_is_found_and_named(tmp_path: Path, kind: str) -> None:
    path = dense_store(tmp_path, kind)
    Store(path).verify_dense()
    store = flip_a_bit(path / "dense.safetensors", -2000)
    with pytest.raises(EStreamError, match=r"tensor 'head\.weight' .* wrong checksum"):
        store.verify_dense()


def test_a_bf16_weight_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = dense_store(tmp_path, "bf16")
    content = bytearray((path / "dense.safetensors").read_bytes())
    content[-2:] = b"\x80\x7f"  # infinity
    (path / "dense.safetensors").write_bytes(content)
    with pytest.raises(EStreamError, match=r"head\.weight .* NaN or infinite"):
        Store(path).verify_dense()


def test_kinds_are_known_from_the_header_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = {kind: Store(dense_store(tmp_path, kind)) for kind in ("f32", "bf16", "q8_0", "q4_0")}
    monkeypatch.setattr("estream_lab.models.shard.Shard.read_stored", None)
    monkeypatch.setattr("estream_lab.models.shard.Shard.read", None)
    held = {"f32": "f32", "bf16": "bf16", "q8_0": "q8-32x32", "q4_0": "q4-32x32"}
    for kind, store in stores.items():
        kinds = store.dense.kinds
        assert store.dense_quant == kind and len(kinds) == 2 + 5 * SPEC.layers
        assert kinds["head.weight"] == held[kind]
        assert kinds["layers.2.router.weight"] == ("bf16" if kind == "bf16" else "f32")


def test_numbers_of_every_weight() -> None:
    assert float32(np.array([[0x3FC0]], np.uint16)).tolist() == [[1.5]]
    assert float32(np.ones(3, np.float32)).tolist() == [1, 1, 1]
