import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from estream_lab.errors import EStreamError
from estream_lab.models import Checkpoint

from .checkpoints import tensors, write, write_sharded


def halves() -> list[dict[str, np.ndarray]]:
    """The tensors dealt out alternately, so that experts are parted from themselves."""
    every = sorted(tensors().items())
    return [dict(every[::2]), dict(every[1::2])]


def test_one_file_and_shards_read_alike(tmp_path: Path) -> None:
    with Checkpoint(write(tmp_path / "one")) as one, Checkpoint(write_sharded(tmp_path / "two", halves())) as two:
        assert one.names == two.names == tuple(sorted(tensors()))
        for name, weights in tensors().items():
            assert one.shape(name) == two.shape(name) == weights.shape
            assert one.dtype(name) == "F32"
            assert np.array_equal(one.read(name), weights)
            assert np.array_equal(two.read(name), weights)
            assert np.array_equal(two.read(name, 1), weights[1])


def test_config_is_the_files_content(tmp_path: Path) -> None:
    with Checkpoint(write(tmp_path)) as checkpoint:
        assert checkpoint.config == json.loads((tmp_path / "config.json").read_text())


def test_an_unknown_tensor_is_named(tmp_path: Path) -> None:
    with Checkpoint(write(tmp_path)) as checkpoint, pytest.raises(EStreamError, match=r"has no tensor model\.nothing"):
        checkpoint.read("model.nothing")


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(EStreamError, match=r"model\.safetensors is no folder; give the folder"):
        Checkpoint(tmp_path / "model.safetensors")


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b"\xff\xfe\xfa", b"[" * 100_000])
def test_a_folder_without_a_usable_config_is_refused(tmp_path: Path, content: bytes | None) -> None:
    write(tmp_path)
    (tmp_path / "config.json").unlink()
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(EStreamError, match=r"config\.json .*; give the folder of a checkpoint"):
        Checkpoint(tmp_path)


def test_a_pipe_in_the_place_of_config_is_refused_at_once(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "config.json").unlink()
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(EStreamError, match=r"config\.json can't be read \(it is no regular file\)"):
        Checkpoint(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "weights.safetensors")
    with pytest.raises(EStreamError, match=r"holds neither model\.safetensors nor model\.safetensors\.index\.json"):
        Checkpoint(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_sharded(tmp_path, halves())
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        EStreamError, match=r"names model-00002-of-00002\.safetensors, which is missing from .*fetch that"
    ):
        Checkpoint(tmp_path)


def test_a_truncated_shard_is_named(tmp_path: Path) -> None:
    shard = write_sharded(tmp_path, halves()) / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-40])
    with pytest.raises(EStreamError, match=r"model-00002-of-00002\.safetensors was cut short"):
        Checkpoint(tmp_path)


@pytest.mark.parametrize("weight_map", [{}, {"a": 3}, None])
def test_an_index_without_a_map_is_refused(tmp_path: Path, weight_map: dict[str, str] | None) -> None:
    write_sharded(tmp_path, halves())
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(EStreamError, match="has no weight_map"):
        Checkpoint(tmp_path)


def test_an_index_that_points_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "elsewhere.safetensors")
    write_sharded(tmp_path / "c", halves(), dict.fromkeys(tensors(), "../elsewhere.safetensors"))
    with pytest.raises(EStreamError, match="no plain file name"):
        Checkpoint(tmp_path / "c")


def test_an_index_that_misplaces_a_tensor_is_refused(tmp_path: Path) -> None:
    first, second = halves()
    name = sorted(first)[0]
    placed = dict.fromkeys(first, "model-00001-of-00002.safetensors")
    placed |= dict.fromkeys([*second, name], "model-00002-of-00002.safetensors")
    write_sharded(tmp_path, [first, second], placed)
    with pytest.raises(EStreamError, match=f"places tensor {name} in model-00002-of-00002.safetensors, which lacks it"):
        Checkpoint(tmp_path)


def test_a_tensor_that_the_index_forgets_is_refused(tmp_path: Path) -> None:
    first, second = halves()
    name = sorted(first)[0]
    placed = dict.fromkeys(first, "model-00001-of-00002.safetensors")
    placed |= dict.fromkeys(second, "model-00002-of-00002.safetensors")
    del placed[name]
    write_sharded(tmp_path, [first, second], placed)
    with pytest.raises(EStreamError, match=f"holds tensor {name}, which model.safetensors.index.json doesn't place"):
        Checkpoint(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    first, second = halves()
    name = sorted(first)[0]
    with pytest.raises(EStreamError, match=f"holds tensor {name}, which"):
        Checkpoint(write_sharded(tmp_path, [first, {**second, name: first[name]}]))
