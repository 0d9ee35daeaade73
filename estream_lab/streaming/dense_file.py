"""Reading dense.safetensors as a manifest describes it: each tensor as it will be held, its checksum verified."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.host.bf16 import widen
from estream_lab.kernels.int8 import Strips
from estream_lab.kernels.projections import STRIPS, Weight
from estream_lab.models.dense import quantisable
from estream_lab.models.shard import Shard
from estream_lab.models.spec import ModelSpec
from estream_lab.streaming.dense import DENSE_QUANTS, dense_checksum
from estream_lab.streaming.plan import WaitLimit
from estream_lab.workers import Attendant

NO_BYTES = WaitLimit.of(None, 0)  # for answers that bring next to none
_AT_ONCE = 1 << 18  # values that are widened to be summed up

_KINDS = {"F32": "f32", "F16": "f32", "BF16": "bf16"}
"""How a matrix of each dtype is held."""


@dataclass(frozen=True)
class DenseFile:
    """What a manifest says of a store's dense tensors.

    Attributes:
        path: of the file.
        spec: the model.
        nbytes: size of the file.
        checksums: xxh3-64 of each tensor by canonical name, see `dense.write_dense`.
        layouts: of the quantised tensors, by name.
    """

    path: Path
    spec: ModelSpec
    nbytes: int
    checksums: Mapping[str, str]
    layouts: Mapping[str, str]

    @classmethod
    def from_manifest(cls, path: Path, spec: ModelSpec, entry: Mapping[str, Any]) -> "DenseFile":
        """The manifest's entry.

        Raises:
            EStreamError: a layout that this program doesn't read.
            KeyError, TypeError, ValueError: a damaged entry.
        """
        layouts = dict(entry.get("layouts", {}))
        matrices = quantisable(spec)
        for name, layout in layouts.items():
            if layout not in STRIPS:
                raise EStreamError(
                    f"{path} holds '{name}' in the layout '{layout}', and this program reads {', '.join(STRIPS)}: pack "
                    "the checkpoint again"
                )
            if name not in matrices:
                raise ValueError(f"a layout of '{name}', which is no matrix that is quantised")
            STRIPS[layout].shape_for(*matrices[name])
        return cls(path, spec, int(entry["bytes"]), dict(entry["checksums"]), layouts)

    @cached_property
    def stored(self) -> dict[str, str]:
        """Of each matrix by name, the dtype (F32, F16, BF16) or the layout in which it is stored.

        Reads the file's header the first time.

        Raises:
            EStreamError: a file that isn't what the manifest says.
        """
        with self._asked() as (file, _):
            entries, shapes = file.entries, self.spec.dense_shapes()
            for name in entries.keys() & shapes.keys() - self.layouts.keys():
                file.check_dtype(name)
        return {
            name: self.layouts.get(name, entries[name].dtype)
            for name, shape in shapes.items()
            if len(shape) == 2 and name in entries
        }

    @property
    def kinds(self) -> dict[str, str]:
        """Of each matrix by name, the kind of its weights in memory (`kernels.projections.HELD`)."""
        return {name: _KINDS.get(stored, stored) for name, stored in self.stored.items()}

    @property
    def quant(self) -> str:
        """The quantisations, or else dtypes, of the matrices that may be quantised, joined where they differ."""
        names = {layout: quant for quant, layout in DENSE_QUANTS.items()}
        stored = self.stored
        return "+".join(sorted({names.get(s, s.lower()) for n in quantisable(self.spec) if (s := stored.get(n))}))

    @contextmanager
    def opened(self) -> Iterator[Callable[[str], Weight]]:
        """A function that reads one tensor as it is held and verifies its checksum, while the file is open.

        Vectors are float32. It reads on a thread of its own, so that storage that doesn't answer is given up with an
        error.
        """
        with self._asked() as (file, ask):

            def read(name: str) -> Weight:
                if name not in self.checksums or name not in file.entries:
                    raise EStreamError(f"{self.path.parent} has no dense tensor '{name}': pack the store again")
                limit = WaitLimit.of(None, file.entries[name].nbytes)
                weight: Weight = ask(partial(self._read, file, name), f"reading '{name}' of {self.path}", limit)
                if _checksum(weight) != self.checksums[name]:
                    raise EStreamError(f"tensor '{name}' in {self.path} has a wrong checksum: pack the store again")
                return weight

            yield read

    def _read(self, file: Shard, name: str) -> Weight:
        entry = file.entries[name]
        if name in self.layouts:
            return self._read_strips(file, name)
        if entry.dtype == "BF16" and len(entry.shape) == 2:
            return file.read_bf16(name)
        return file.read(name)

    def _read_strips(self, file: Shard, name: str) -> Strips:
        entry, size = file.entries[name], quantisable(self.spec)[name]
        strips = STRIPS[self.layouts[name]]
        if (entry.dtype, entry.shape, entry.nbytes) != ("U8", strips.shape_for(*size), strips.bytes_for(*size)):
            raise EStreamError(
                f"tensor '{name}' in {self.path} is {entry.dtype} of shape {entry.shape} in {entry.nbytes} bytes, not "
                "what the manifest says: pack the store again"
            )
        weight = strips.room(*size)
        file.read_stored(name, weight.blocks.reshape(-1))
        return weight

    @contextmanager
    def _asked(self) -> Iterator[tuple[Shard, Callable[[Callable[[], Any], str, WaitLimit], Any]]]:
        """The open file, and a way to call what may find no answer."""
        with Attendant[Any]("estream-dense") as attendant:

            def ask(call: Callable[[], Any], what: str, limit: WaitLimit) -> Any:
                try:
                    return attendant.ask(call, what, limit.seconds)
                except OSError as error:
                    raise EStreamError(f"{what} failed: {error.strerror}: check the disk, or move the store") from error

            file: Shard = ask(partial(Shard, self.path), f"the opening of {self.path}", NO_BYTES)
            attendant.at_rest(file.close)
            yield file, ask


def float32(weight: Weight) -> NDArray[np.float32]:
    """The numbers of a weight, (N, K) or (N,): of a quantised one the dequantised, exactly."""
    if isinstance(weight, Strips):
        return weight.rows(np.arange(weight.n), np.empty((weight.n, weight.k), np.float32))
    if weight.dtype == np.uint16:
        return widen(weight.view(np.uint16), np.empty(weight.shape, np.float32))
    return np.asarray(weight, np.float32)


def _checksum(weight: Weight) -> str:
    """Of what is stored, see `dense.write_dense`."""
    if isinstance(weight, Strips):
        return xxhash.xxh3_64_hexdigest(weight.blocks.data)
    if weight.dtype != np.uint16:
        return dense_checksum(np.asarray(weight, np.float32))
    digest, flat = xxhash.xxh3_64(), weight.reshape(-1).view(np.uint16)
    for first in range(0, flat.size, _AT_ONCE):
        piece = flat[first : first + _AT_ONCE]
        digest.update(widen(piece, np.empty(piece.shape, np.float32)).data)
    return digest.hexdigest()
