"""The prepacked store ``NAME.estream/``: manifest, expert records in execution layout, dense tensors (architecture)."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.shape import PAGE_BYTES, RecordClass
from estream_lab.models.regular import read_regular
from estream_lab.models.spec import ModelSpec
from estream_lab.streaming.dense_file import NO_BYTES, DenseFile, float32
from estream_lab.workers import answered

FORMAT = "estream-store"
VERSION = 2
"""Of stores with quantised dense matrices, which `dense.layouts` of the manifest names."""
PLAIN_VERSION = 1
"""Of stores without: programs that know no others read them, and refuse the rest."""
MANIFEST, EXPERTS, DENSE = "manifest.json", "experts.bin", "dense.safetensors"


@dataclass(frozen=True)
class LayerRecords:
    """Where one layer's expert records lie in experts.bin.

    Attributes:
        record: their class.
        offset: first byte of the layer's records.
        order: int32 (E,), pi: the expert of each record in file order.
        checksums: xxh3-64 of each record, padding included, in file order.
    """

    record: RecordClass
    offset: int
    order: NDArray[np.int32]
    checksums: tuple[int, ...]

    @property
    def end(self) -> int:
        """First byte after the layer's records."""
        return self.offset + len(self.order) * self.record.stride

    def group_experts(self, group: int, group_size: int) -> NDArray[np.int32]:
        """The experts of ``group`` in place order: int32 (n,), n <= group_size."""
        return self.order[group * group_size : (group + 1) * group_size]

    def group_bytes(self, group: int, group_size: int) -> int:
        """Bytes that one read of ``group`` takes, padding included."""
        return len(self.group_experts(group, group_size)) * self.record.stride

    def group_of(self, group_size: int) -> NDArray[np.int32]:
        """q_l(e) for every expert: int32 (E,)."""
        groups = np.empty(len(self.order), np.int32)
        groups[self.order] = np.arange(len(self.order), dtype=np.int32) // group_size
        return groups

    def groups(self, group_size: int) -> int:
        """How many groups of ``group_size`` the layer has: ceil(E / G)."""
        return -(-len(self.order) // group_size)


class Store:
    """An opened store. Everything that can be checked without reading the weights has been.

    Args:
        path: the ``NAME.estream`` folder.

    Raises:
        EStreamError: not a store, another version, a damaged manifest, or files of the wrong size.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        raw = self._manifest_bytes()
        self.checksum: str = xxhash.xxh3_64_hexdigest(raw)
        try:
            manifest = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise EStreamError(f"{self.path / MANIFEST} is not valid JSON ({error}): pack the store again") from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise EStreamError(f"{self.path / MANIFEST} is not the manifest of an expert store")
        if manifest.get("version") not in (PLAIN_VERSION, VERSION):
            raise EStreamError(
                f"{self.path} is a store of format version {manifest.get('version')}, and this program reads versions "
                f"{PLAIN_VERSION} and {VERSION}: pack the checkpoint again"
            )
        try:
            if manifest["checksum"] != manifest_checksum(manifest):
                raise EStreamError(f"{self.path / MANIFEST} was changed since it was packed: pack the store again")
            self._parse(manifest)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise EStreamError(f"{self.path / MANIFEST} is damaged ({error!r}): pack the store again") from error
        self._check_sizes()

    def _manifest_bytes(self) -> bytes:
        try:
            path = self.path / MANIFEST
            return answered(partial(read_regular, path), str(path), NO_BYTES.seconds)
        except FileNotFoundError:
            hint = "no such folder" if not self.path.exists() else f"it has no {MANIFEST}"
            if self.path.with_name(self.path.name + ".partial").exists():
                hint += "; its packing was not finished, run the same pack command again to resume it"
            raise EStreamError(f"{self.path} is not a store: {hint}") from None
        except NotADirectoryError:
            raise EStreamError(f"{self.path} is not a store: it is a file, or lies in one") from None
        except OSError as error:
            raise EStreamError(f"can't read {self.path / MANIFEST}: {error.strerror}") from error

    def _parse(self, manifest: dict[str, Any]) -> None:
        self.spec = ModelSpec.from_json(manifest["model"])
        self.tokenizer_json: str | None = manifest["tokenizer"]
        if not isinstance(self.tokenizer_json, str | None):
            raise TypeError("a tokenizer that is no text")
        self.origin: dict[str, Any] = dict(manifest["origin"])
        self.classes = tuple(RecordClass.from_json(c) for c in manifest["classes"])
        for record in self.classes:
            if (record.shape.hidden, record.shape.ffn) != (self.spec.hidden, self.spec.ffn):
                raise ValueError(f"records of {record.shape} for a model of {self.spec.hidden} x {self.spec.ffn}")
        self.layers = tuple(self._layer(entry) for entry in manifest["layers"])
        if ("layouts" in manifest["dense"]) != (manifest["version"] == VERSION):
            raise ValueError("layouts of dense tensors in a store of another version")
        self.dense = DenseFile.from_manifest(self.path / DENSE, self.spec, manifest["dense"])
        if len(self.layers) != self.spec.layers:
            raise ValueError(f"{len(self.layers)} layers of records for a model of {self.spec.layers}")
        by_offset = sorted(self.layers, key=lambda layer: layer.offset)
        if any(before.end > after.offset for before, after in pairwise(by_offset)):
            raise ValueError("layers whose records overlap")

    def _layer(self, entry: dict[str, Any]) -> LayerRecords:
        listed, offset, number = entry["order"], entry["offset"], entry["class"]
        if any(type(value) is not int for value in (*listed, offset, number)):
            raise TypeError("an order, offset or class that isn't made of whole numbers")
        if len(listed) != self.spec.experts or sorted(listed) != list(range(len(listed))):
            raise ValueError(f"an expert order that is no permutation of {self.spec.experts} experts")
        if offset < 0 or offset % PAGE_BYTES or number < 0:  # direct reads start on a page
            raise ValueError(f"offset {offset} or class {number} is negative or off a page")
        order = np.array(listed, np.int32)
        order.flags.writeable = False
        checksums = tuple(int(c, 16) for c in entry["checksums"])
        if len(checksums) != len(order):
            raise ValueError(f"{len(checksums)} checksums for {len(order)} records")
        return LayerRecords(self.classes[number], offset, order, checksums)

    def _check_sizes(self) -> None:
        for path, expected in ((self.experts_path, self.experts_bytes), (self.dense.path, self.dense.nbytes)):
            try:
                size = path.stat().st_size
            except OSError as error:
                raise EStreamError(f"{path} can't be read ({error.strerror}): pack the store again") from error
            if size != expected:
                raise EStreamError(f"{path} has {size} bytes where the manifest says {expected}: pack the store again")

    @property
    def experts_path(self) -> Path:
        """The file of expert records."""
        return self.path / EXPERTS

    @cached_property
    def experts_bytes(self) -> int:
        """Size of experts.bin: the end of the last layer's records."""
        return max(layer.end for layer in self.layers)

    @property
    def nbytes(self) -> int:
        """Bytes of expert records and dense tensors."""
        return self.experts_bytes + self.dense.nbytes

    @property
    def stride(self) -> int:
        """The slot stride that an arena for this store needs: the largest record stride."""
        return max(record.stride for record in self.classes)

    @property
    def layout(self) -> str:
        """The layouts of the store's records, joined where they differ."""
        return "+".join(sorted({layout for record in self.classes for layout in record.shape.layouts}))

    @property
    def dense_quant(self) -> str:
        """How the dense matrices that may be quantised are stored: q8_0, q4_0, or else f32, f16 or bf16; joined where
        they differ."""
        return self.dense.quant

    @contextmanager
    def dense_reader(self) -> Iterator[Callable[[str], NDArray[np.float32]]]:
        """A function that reads one dense tensor as float32: see `DenseFile.opened`."""
        with self.dense.opened() as read:
            yield lambda name: float32(read(name))

    def verify_dense(self) -> None:
        """Read every dense tensor and verify its checksum.

        Raises:
            EStreamError: the first that is damaged.
        """
        with self.dense.opened() as read:
            for name in self.dense.checksums:
                read(name)


def manifest_checksum(manifest: dict[str, Any]) -> str:
    """xxh3-64 of everything in the manifest but its own ``checksum``: a changed number in it would change logits."""
    rest = {key: value for key, value in manifest.items() if key != "checksum"}
    return xxhash.xxh3_64_hexdigest(json.dumps(rest, sort_keys=True).encode())
