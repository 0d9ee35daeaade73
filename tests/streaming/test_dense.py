"""dense.safetensors: what is written of each tensor, and read back; what packing refuses."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from safetensors.numpy import load_file, save_file

from estream_lab.errors import EStreamError
from estream_lab.kernels.host.bf16 import narrow
from estream_lab.kernels.int8 import Q4Strips, Q8Strips, pack_q4, pack_q8
from estream_lab.kernels.int8.q8 import dequantise_q8_0, quantise_q8_0
from estream_lab.kernels.quant import dequantise_q4_0, quantise_q4_0
from estream_lab.models.dense import quantisable
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.streaming import Store
from estream_lab.streaming import pack as pack_module
from estream_lab.streaming.pack import pack, pack_synthetic
from tests.stores import SPEC, Rounded, dense_store, synthetic_store
from tests.streaming.test_pack import files, write_checkpoint

KINDS = {
    "q8_0": (pack_q8, Q8Strips, lambda w: dequantise_q8_0(*quantise_q8_0(w))),
    "q4_0": (pack_q4, Q4Strips, lambda w: dequantise_q4_0(*quantise_q4_0(w))),
}


def test_which_matrices_are_quantised() -> None:
    parts = ("q_proj", "k_proj", "v_proj", "o_proj")
    layers = {f"layers.{layer}.{part}.weight" for layer in range(SPEC.layers) for part in parts}
    assert set(quantisable(SPEC)) == layers | {"embed.weight", "head.weight"}
    assert set(quantisable(replace(SPEC, tied=True))) == layers | {"embed.weight"}


@pytest.mark.parametrize("quant", KINDS)
def test_quantised_matrices_lie_as_they_are_used(tmp_path: Path, quant: str) -> None:
    pack_kind, strips, dequantised = KINDS[quant]
    path, source = synthetic_store(tmp_path, dense_quant=quant), SyntheticSource(SPEC)
    dense, store = load_file(path / "dense.safetensors"), Store(path)
    assert store.dense_quant == quant == store.origin["dense_quant"]
    with store.dense.opened() as read, store.dense_reader() as read_float32:
        for name in SPEC.dense_shapes():
            weight, found = source.dense(name), read(name)
            if name not in quantisable(SPEC):
                assert np.array_equal(found, weight) and np.array_equal(dense[name], weight)
                assert np.array_equal(read_float32(name), weight)
                continue
            blocks = pack_kind(weight).blocks
            assert (
                type(found) is strips and np.array_equal(found.blocks, blocks) and np.array_equal(dense[name], blocks)
            )
            assert found.blocks.ctypes.data % 64 == 0
            assert store.dense.checksums[name] == xxhash.xxh3_64_hexdigest(dense[name].data)
            assert np.array_equal(read_float32(name), dequantised(weight))


def test_large_matrices_are_packed_a_slab_at_a_time() -> None:
    w = np.random.default_rng(0).standard_normal((32 * 32 * 2 + 45, 64)).astype(np.float32)
    ids = np.arange(len(w))
    for pack_kind, _, dequantised in KINDS.values():
        assert np.array_equal(pack_kind(w).rows(ids, np.empty(w.shape, np.float32)), dequantised(w))


def test_bf16_tensors_are_read_as_bits(tmp_path: Path) -> None:
    store, source = Store(dense_store(tmp_path, "bf16")), Rounded(SPEC, "BF16")
    assert store.dense_quant == "bf16" and set(store.dense.kinds.values()) == {"bf16"}
    with store.dense.opened() as read, store.dense_reader() as read_float32:
        for name, shape in SPEC.dense_shapes().items():
            assert np.array_equal(read(name), narrow(source.dense(name)) if len(shape) == 2 else source.dense(name))
            assert np.array_equal(read_float32(name), source.dense(name))


def test_a_store_that_keeps_its_dense_weights_is_one_that_older_programs_read(tmp_path: Path) -> None:
    manifest = json.loads((synthetic_store(tmp_path) / "manifest.json").read_text())
    assert manifest["version"] == 1 and set(manifest["dense"]) == {"bytes", "checksums"}
    assert "dense_quant" not in manifest["origin"]
    quantised = json.loads((synthetic_store(tmp_path, dense_quant="q8_0") / "manifest.json").read_text())
    assert quantised["version"] == 2 and set(quantised["dense"]["layouts"]) == set(quantisable(SPEC))


@pytest.mark.parametrize(("begun", "then"), [("keep", "q8_0"), ("q8_0", "keep"), ("q4_0", "q8_0")])
def test_an_interrupted_pack_goes_on_with_the_same_quantisation_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: str, then: str
) -> None:
    def run(name: str, dense_quant: str) -> None:
        pack_synthetic(SyntheticSource(SPEC), tmp_path / name, dense_quant=dense_quant, progress=False)

    monkeypatch.setattr(pack_module, "write_dense", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run("m.estream", begun)
    monkeypatch.undo()
    with pytest.raises(EStreamError, match="begun from another checkpoint or with other settings"):
        run("m.estream", then)
    run("m.estream", begun)
    run("whole.estream", begun)
    assert files(tmp_path / "m.estream") == files(tmp_path / "whole.estream")


@pytest.mark.parametrize("value", [np.nan, 1e9])
def test_a_matrix_that_cannot_be_quantised_is_named_and_nothing_is_left(tmp_path: Path, value: float) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    tensors = load_file(checkpoint / "model.safetensors")
    tensors["lm_head.weight"][70, 40] = value
    save_file(tensors, checkpoint / "model.safetensors")
    with pytest.raises(EStreamError, match=r"head\.weight (can't be quantised.*row 70|.*NaN)"):
        pack(checkpoint, tmp_path / "m.estream", dense_quant="q8_0", progress=False)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"]


@pytest.mark.parametrize(
    ("spec", "quant", "message"),
    [
        (SPEC, "q5_1", "unknown quantisation 'q5_1' of dense weights: choose one of keep, q8_0, q4_0"),
        (
            replace(SPEC, head_dim=24), "q8_0",
            r"layers\.0\.o_proj\.weight has 48 inputs, and q8_0 takes multiples of 32: keep dense weights",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_packed_is_refused_first(tmp_path: Path, spec: Any, quant: str, message: str) -> None:
    with pytest.raises(EStreamError, match=message):
        pack_synthetic(SyntheticSource(spec), tmp_path / "m.estream", dense_quant=quant, progress=False)
    assert os.listdir(tmp_path) == []


def test_the_room_on_the_disk_is_that_of_the_quantised_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(pack_module, "_check_space", lambda _, needed: asked.append(needed))
    for quant in ("keep", "q8_0", "q4_0"):
        store = Store(synthetic_store(tmp_path, dense_quant=quant))
        header = 8 + int.from_bytes((store.path / "dense.safetensors").read_bytes()[:8], "little")
        assert asked[-1] == store.nbytes - header
