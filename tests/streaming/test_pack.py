"""Packing: right records, same bytes, resumed after any interruption, nothing half written."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from estream_lab.errors import EStreamError
from estream_lab.models import Checkpoint
from estream_lab.models.families import FAMILIES
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.streaming import Store
from estream_lab.streaming import pack as pack_module
from estream_lab.streaming.pack import pack, pack_synthetic
from estream_lab.streaming.record import pack_record
from tests.stores import SPEC, synthetic_store

CONFIG = {
    "model_type": "olmoe",
    "hidden_size": SPEC.hidden,
    "intermediate_size": SPEC.ffn,
    "num_hidden_layers": SPEC.layers,
    "num_attention_heads": SPEC.heads,
    "num_key_value_heads": SPEC.kv_heads,
    "num_experts": SPEC.experts,
    "num_experts_per_tok": 2,
    "vocab_size": SPEC.vocab,
    "max_position_embeddings": SPEC.context,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "norm_topk_prob": False,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}


def write_checkpoint(folder: Path) -> Path:
    """The weights of `SyntheticSource` as a transformers checkpoint in float32."""
    family, source = FAMILIES["olmoe"], SyntheticSource(SPEC, 0)
    tensors = {family.dense_name(name): source.dense(name) for name in SPEC.dense_shapes()}
    for layer in range(SPEC.layers):
        for expert in range(SPEC.experts):
            names = (family.experts.gate, family.experts.up, family.experts.down)
            for name, weight in zip(names, source.expert(layer, expert), strict=True):
                tensors[name.format(layer=layer, expert=expert)] = weight
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "checkpoint")


def files(store: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(store.iterdir())}


def test_the_same_input_gives_the_same_bytes(checkpoint: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        pack(checkpoint, tmp_path / f"{name}.estream", progress=False)
    assert files(tmp_path / "a.estream") == files(tmp_path / "b.estream")
    synthetic = files(synthetic_store(tmp_path))
    assert files(tmp_path / "a.estream")["experts.bin"] == synthetic["experts.bin"]
    assert sorted(os.listdir(tmp_path / "a.estream")) == ["dense.safetensors", "experts.bin", "manifest.json"]


def test_the_manifest_names_the_model(checkpoint: Path, tmp_path: Path) -> None:
    pack(checkpoint, tmp_path / "a.estream", progress=False)
    named = checkpoint.rename(tmp_path / "olmoe-tiny")
    pack(named, tmp_path / "b.estream", progress=False)
    assert Store(tmp_path / "a.estream").origin["checkpoint"] == tmp_path.name  # .../NAME/checkpoint
    assert Store(tmp_path / "b.estream").origin["checkpoint"] == "olmoe-tiny"


def test_dense_weights_keep_their_dtype(checkpoint: Path, tmp_path: Path) -> None:
    half = {name: tensor.astype(np.float16) for name, tensor in load_file(checkpoint / "model.safetensors").items()}
    save_file(half, checkpoint / "model.safetensors")
    pack(checkpoint, tmp_path / "half.estream", progress=False)
    dense = load_file(tmp_path / "half.estream" / "dense.safetensors")
    assert {tensor.dtype for tensor in dense.values()} == {np.dtype(np.float16)}
    assert np.array_equal(dense["head.weight"], half["lm_head.weight"])


@pytest.mark.parametrize("stop_after", [0, 1, 10, 11, 25, 29])
def test_an_interrupted_pack_goes_on_where_it_stopped(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    pack(checkpoint, tmp_path / "whole.estream", progress=False)
    packed = 0

    def interrupted(*arguments: Any) -> np.ndarray:
        nonlocal packed
        if packed == stop_after:
            raise KeyboardInterrupt
        packed += 1
        return pack_record(*arguments)

    monkeypatch.setattr(pack_module, "pack_record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pack(checkpoint, tmp_path / "cut.estream", progress=False)
    assert not (tmp_path / "cut.estream").exists()
    monkeypatch.undo()
    result = pack(checkpoint, tmp_path / "cut.estream", progress=False)
    assert result.resumed_layers == stop_after // SPEC.experts
    assert files(tmp_path / "cut.estream") == files(tmp_path / "whole.estream")
    assert not (tmp_path / "cut.estream.partial").exists()


@pytest.mark.parametrize("step", range(3))
def test_a_stop_within_the_commit_loses_nothing(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Before the folder's rename, before the manifest's, and before the journal is removed."""
    pack(checkpoint, tmp_path / "whole.estream", progress=False)
    cut, steps = tmp_path / "cut.estream", 0

    def stop_at(real: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps > step:
                raise KeyboardInterrupt
            return real(*arguments, **more)

        return call

    monkeypatch.setattr(os, "rename", stop_at(os.rename))
    monkeypatch.setattr(Path, "unlink", stop_at(Path.unlink))
    with pytest.raises(KeyboardInterrupt):
        pack(checkpoint, cut, progress=False)
    monkeypatch.undo()
    if step < 2:
        with pytest.raises(EStreamError, match="not a store"):
            Store(cut)
        with pytest.raises(EStreamError, match="with other settings"):  # never passed off as what was asked for now
            pack(checkpoint, cut, quant="f32", progress=False)
        assert pack(checkpoint, cut, progress=False).resumed_layers == SPEC.layers
        assert files(cut) == files(tmp_path / "whole.estream")
    assert Store(cut).spec == SPEC


def test_an_unfinished_commit_of_unknown_origin_is_refused(tmp_path: Path) -> None:
    store = synthetic_store(tmp_path)
    (store / "manifest.json").rename(store / "manifest.json.partial")
    with pytest.raises(EStreamError, match="is unfinished, and not of this checkpoint"):
        synthetic_store(tmp_path)


def test_two_runs_never_write_one_store(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(checkpoint, tmp_path / "whole.estream", progress=False)
    output, refused = tmp_path / "m.estream", []

    def meddled(*arguments: Any) -> np.ndarray:
        if len(refused) < 12:
            with pytest.raises(EStreamError) as caught:
                pack(checkpoint, output, progress=False)
            refused.append(str(caught.value))
        return pack_record(*arguments)

    monkeypatch.setattr(pack_module, "pack_record", meddled)
    pack(checkpoint, output, progress=False)
    assert set(refused) == {f"another process is packing into {output}.partial: wait for its end"}
    assert files(output) == files(tmp_path / "whole.estream")


def test_a_damaged_tokenizer_is_refused_before_anything_is_written(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "tokenizer.json").write_text("{}")
    with pytest.raises(EStreamError, match="no tokenizer file"):
        pack(checkpoint, tmp_path / "m.estream", progress=False)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"]


def test_files_in_the_way_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "link.estream").symlink_to("nowhere")
    (tmp_path / "m.estream.partial").write_text("")
    for name, message in (("link", "is not a store"), ("m", "can't write .*partial"), ("n" * 300, "can't write")):
        with pytest.raises(EStreamError, match=message):
            pack_synthetic(SyntheticSource(SPEC), tmp_path / f"{name}.estream", progress=False)


def test_a_partial_store_of_other_settings_is_refused(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_module, "write_dense", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        pack(checkpoint, tmp_path / "m.estream", progress=False)
    monkeypatch.undo()
    with pytest.raises(EStreamError, match="begun from another checkpoint or with other settings"):
        pack(checkpoint, tmp_path / "m.estream", quant="f32", progress=False)
    for damaged in ("{", "[" * 100_000):
        (tmp_path / "m.estream.partial" / "pack.json").write_text(damaged)
        with pytest.raises(EStreamError, match=r"pack\.json is damaged"):
            pack(checkpoint, tmp_path / "m.estream", progress=False)


def test_a_full_disk_keeps_whole_layers_and_says_so(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, calls = os.fsync, 0

    def full(fd: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:  # while the second layer's journal is written
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EStreamError, match="no room left while writing .*same command again"):
        pack(checkpoint, tmp_path / "m.estream", progress=False)
    assert not (tmp_path / "m.estream").exists() and (tmp_path / "m.estream.partial").exists()
    monkeypatch.undo()
    assert pack(checkpoint, tmp_path / "m.estream", progress=False).resumed_layers >= 1


def test_too_little_room_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))  # type: ignore[attr-defined]
    with pytest.raises(EStreamError, match="has 1 bytes free and the store needs"):
        synthetic_store(tmp_path)
    assert os.listdir(tmp_path) == []


def test_bad_weights_leave_nothing_behind(checkpoint: Path, tmp_path: Path) -> None:
    tensors = load_file(checkpoint / "model.safetensors")
    name = "model.layers.1.mlp.experts.3.up_proj.weight"
    for value in (np.nan, 1e6):  # not a weight; a weight beyond what Q4_0's fp16 scale can hold
        tensors[name] = np.full_like(tensors[name], value)
        save_file(tensors, checkpoint / "model.safetensors")
        with pytest.raises(EStreamError, match="expert 3 of layer 1 can't be packed"):
            pack(checkpoint, tmp_path / "m.estream", progress=False)
        assert sorted(os.listdir(tmp_path)) == ["checkpoint"]


@pytest.mark.parametrize(
    ("name", "quant", "message"),
    [
        ("m", "q4_0", r"must end in \.estream"),
        ("m.estream", "q9", "unknown quantisation"),
        ("there.estream", "f32", "exists already"),
        ("file.estream", "f32", "is not a store"),
    ],
)
def test_bad_outputs_are_refused(tmp_path: Path, name: str, quant: str, message: str) -> None:
    (tmp_path / "there.estream").mkdir()
    (tmp_path / "there.estream" / "manifest.json").write_text("{}")
    (tmp_path / "file.estream").write_text("")
    with pytest.raises(EStreamError, match=message):
        pack_synthetic(SyntheticSource(SPEC), tmp_path / name, quant=quant, progress=False)


def test_a_bad_checkpoint_is_refused_before_anything_is_written(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "config.json").write_text(json.dumps(CONFIG | {"num_experts": 11}))
    with pytest.raises(EStreamError):
        pack(checkpoint, tmp_path / "m.estream", progress=False)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"]
    with Checkpoint(checkpoint) as opened:
        assert "lm_head.weight" in opened.names
