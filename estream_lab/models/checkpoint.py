"""A checkpoint as `transformers` saves it: config.json beside one safetensors file or an index of shards."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.models.regular import read_regular
from estream_lab.models.shard import Shard

CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class Checkpoint:
    """The tensors of one checkpoint folder, read one at a time; nothing is kept.

    Attributes:
        path: the folder.
        config: the content of config.json.
        names: every tensor's name, sorted.

    Raises:
        EStreamError: the folder is no safetensors checkpoint, a file is missing, cut or foreign, or index and shards
        disagree.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise EStreamError(
                f"{self.path} is no folder; give the folder that holds {CONFIG} and the safetensors files"
            )
        self.config: dict[str, Any] = _read_object(self.path / CONFIG, "give the folder of a checkpoint")
        self._shards: dict[str, Shard] = {}
        try:
            self._shard_of = self._open_shards()
        except BaseException:
            self.close()
            raise
        self.names: tuple[str, ...] = tuple(sorted(self._shard_of))

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the files; idempotent."""
        for shard in self._shards.values():
            shard.close()

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape, without reading it."""
        return self._shard(name).entries[name].shape

    def dtype(self, name: str) -> str:
        """The tensor's dtype as the file spells it: "F32", "F16", "BF16", …"""
        return self._shard(name).entries[name].dtype

    def check_dtype(self, name: str) -> None:
        """Refuse, without reading it, a tensor that isn't float32, float16 or bfloat16 (EStreamError)."""
        self._shard(name).check_dtype(name)

    def read(self, name: str, index: int | None = None) -> NDArray[np.float32]:
        """The tensor, or its `index`-th part along the first axis, as float32 in memory of its own.

        Raises:
            EStreamError: no such tensor, a dtype other than float32, float16, bfloat16, or a NaN or infinite weight.
        """
        return self._shard(name).read(name, index)

    def _shard(self, name: str) -> Shard:
        if name not in self._shard_of:
            raise EStreamError(f"{self.path} has no tensor {name}; give a complete checkpoint")
        return self._shard_of[name]

    def _open_shards(self) -> dict[str, Shard]:
        if (self.path / SINGLE).exists():
            shard = self._shards[SINGLE] = Shard(self.path / SINGLE)
            return dict.fromkeys(shard.entries, shard)
        if (self.path / INDEX).exists():
            return self._open_indexed()
        raise EStreamError(f"{self.path} holds neither {SINGLE} nor {INDEX}; save the model with safetensors")

    def _open_indexed(self) -> dict[str, Shard]:
        index = self.path / INDEX
        files = _read_object(index, "fetch it again").get("weight_map")
        if not isinstance(files, dict) or not files or not all(isinstance(file, str) for file in files.values()):
            raise EStreamError(f"{index} has no weight_map from tensors to files; fetch it again")
        for file in sorted(set(files.values())):
            if Path(file).name != file:
                raise EStreamError(f"{index} names {file!r}, which is no plain file name; fetch it again")
            if not (self.path / file).exists():
                raise EStreamError(f"{index} names {file}, which is missing from {self.path}; fetch that shard too")
            self._shards[file] = Shard(self.path / file)
        for name, file in files.items():
            if name not in self._shards[file].entries:
                raise EStreamError(f"{index} places tensor {name} in {file}, which lacks it; fetch both again")
        for file, shard in self._shards.items():
            for name in shard.entries:
                if files.get(name) != file:
                    raise EStreamError(
                        f"{self.path / file} holds tensor {name}, which {INDEX} doesn't place there; fetch both again"
                    )
        return {name: self._shards[file] for name, file in files.items()}


def _read_object(path: Path, remedy: str) -> dict[str, Any]:
    try:
        value = json.loads(read_regular(path))
    except OSError as error:
        raise EStreamError(f"{path} can't be read ({error.strerror}); {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise EStreamError(f"{path} is no JSON; {remedy}") from error
    if not isinstance(value, dict):
        raise EStreamError(f"{path} is no JSON object; {remedy}")
    return value
