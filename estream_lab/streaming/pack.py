"""Packing: a checkpoint becomes a store, resumably and in bounded memory; the manifest's rename commits it."""

import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash
from tqdm import tqdm

from estream_lab import __version__
from estream_lab.errors import EStreamError
from estream_lab.experts.order import ExpertOrder, file_orders
from estream_lab.experts.shape import ExpertShape, RecordClass
from estream_lab.models.source import ExpertSource
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.models.tokenizer import FILE as TOKENIZER
from estream_lab.models.tokenizer import Tokenizer
from estream_lab.streaming import unfinished
from estream_lab.streaming.dense import KEEP, WeightSource, check_dense_quant, dense_bytes, write_dense
from estream_lab.streaming.record import QUANTS, pack_record
from estream_lab.streaming.store import DENSE, EXPERTS, FORMAT, MANIFEST, PLAIN_VERSION, VERSION, manifest_checksum


@dataclass(frozen=True)
class Packed:
    """What packing wrote.

    Attributes:
        path: the store.
        experts_bytes, dense_bytes: sizes of its two data files.
        dense_quant: of the dense matrices: q8_0, q4_0, or keep, as the checkpoint has them.
        resumed_layers: layers found finished from an interrupted run.
    """

    path: Path
    experts_bytes: int
    dense_bytes: int
    dense_quant: str
    resumed_layers: int

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self) | {"path": str(self.path)}


def pack(
    checkpoint: Path,
    output: Path,
    *,
    quant: str = "q4_0",
    dense_quant: str = KEEP,
    order: ExpertOrder | None = None,
    progress: bool = True,
) -> Packed:
    """Pack ``checkpoint`` into the store ``output`` (a name that ends in .estream).

    Work goes to ``NAME.estream.partial`` a layer at a time; an interrupted run of the same command goes on after the
    last whole layer. Peak memory is the largest of a dense weight and
    an expert, in float32 and packed.

    Args:
        checkpoint: folder of a transformers checkpoint.
        output: the store to make; must not exist.
        quant: q4_0 or f32, for all expert projections.
        dense_quant: q8_0 or q4_0, for attention's projections, embedding and head; keep, in the checkpoint's dtype.
        order: of each layer's experts; by id where it is None. The manifest keeps it and says where it comes from.
        progress: show a bar on standard error.

    Raises:
        EStreamError: bad input, an existing output, or a full disk; nothing is left under ``output``'s name.
    """
    check_output(output, quant)
    with ExpertSource.open(checkpoint) as source:
        files = sorted(checkpoint.glob("*.safetensors"))
        stamps = {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in files}
        text = None
        if (checkpoint / TOKENIZER).exists():
            Tokenizer.from_files(checkpoint)  # a damaged one is refused here, not by every engine
            text = (checkpoint / TOKENIZER).read_text(encoding="utf-8")
        origin = _Origin(_model_name(checkpoint), stamps, text)
        return _pack(source, output, quant, dense_quant, order, progress, origin)


def pack_synthetic(
    source: SyntheticSource,
    output: Path,
    *,
    quant: str = "q4_0",
    dense_quant: str = KEEP,
    order: ExpertOrder | None = None,
    progress: bool = True,
) -> Packed:
    """Pack a model of random weights, which needs no checkpoint; see `pack`."""
    check_output(output, quant)
    origin = _Origin("synthetic", {"seed": source.seed}, None)
    return _pack(source, output, quant, dense_quant, order, progress, origin)


def _model_name(checkpoint: Path) -> str:
    """The folder's name, or its parent's where the folder is merely called checkpoint."""
    path = checkpoint.resolve()
    return path.parent.name if path.name == "checkpoint" else path.name


@dataclass(frozen=True)
class _Origin:
    """Where weights come from: a name for the manifest, stamps by which a resumed run notices other input."""

    name: str
    stamps: dict[str, Any]
    tokenizer: str | None


def check_output(output: Path, quant: str) -> None:
    """See that a store can be made under this name, before work is spent on it.

    Raises:
        EStreamError: another suffix, something in the way, or an unknown quantisation.
    """
    if quant not in QUANTS:
        raise EStreamError(f"unknown quantisation '{quant}': choose one of {', '.join(QUANTS)}")
    if not output.name.endswith(".estream"):
        raise EStreamError(f"a store's name must end in .estream: try '{output.name}.estream'")
    with unfinished.disk_errors(output):
        if (output / MANIFEST).exists():
            raise EStreamError(f"{output} exists already: remove it or choose another name")
        if os.path.lexists(output) and not (output / unfinished.COMMITTING).exists():
            raise EStreamError(f"{output} exists and is not a store: choose another name")


def _pack(
    source: WeightSource,
    output: Path,
    quant: str,
    dense_quant: str,
    order: ExpertOrder | None,
    progress: bool,
    origin: _Origin,
) -> Packed:
    spec = source.spec
    check_dense_quant(spec, dense_quant)
    version = PLAIN_VERSION if dense_quant == KEEP else VERSION
    orders = file_orders(order, spec.layers, spec.experts)
    record = RecordClass.of(ExpertShape(spec.hidden, spec.ffn, (QUANTS[quant],) * 3))
    layer_bytes = spec.experts * record.stride
    partial = output.with_name(output.name + ".partial")
    stated: dict[str, Any] = {"checkpoint": origin.name, "quant": quant, "packed_by": f"estream-lab {__version__}"}
    if dense_quant != KEEP:
        stated["dense_quant"] = dense_quant
    if order is not None:
        stated["order"] = order.to_json()
    settings = {"version": version, "model": spec.to_json(), "origin": stated, "stamps": origin.stamps}
    if (output / unfinished.COMMITTING).exists():  # a run stopped between the two renames of its commit
        with unfinished.disk_errors(output):
            if len(unfinished.resume(output, settings, layer_bytes)) != spec.layers:
                raise EStreamError(f"{output} is unfinished, and not of this checkpoint: remove it first")
            unfinished.finish_commit(output)
            size = (output / DENSE).stat().st_size
            return Packed(output, spec.layers * layer_bytes, size, dense_quant, spec.layers)
    with unfinished.disk_errors(partial):
        there = len(unfinished.resume(partial, settings, layer_bytes))
        needed = (spec.layers - there) * layer_bytes + dense_bytes(source, dense_quant)
        unfinished.check_space(partial.parent, needed)
        partial.mkdir(parents=True, exist_ok=True)
    with unfinished.disk_errors(partial), unfinished.alone(partial):
        finished = unfinished.resume(partial, settings, layer_bytes)
        done = len(finished)
        try:
            _write_experts(source, partial, settings, finished, record, quant, orders, progress)
            dense = write_dense(partial / DENSE, source, dense_quant)
        except EStreamError:  # bad input: what was written is of no use to anyone
            shutil.rmtree(partial, ignore_errors=True)
            raise
        size = (partial / DENSE).stat().st_size
        manifest = {
            "format": FORMAT,
            "version": version,
            "model": spec.to_json(),
            "tokenizer": origin.tokenizer,
            "classes": [record.to_json()],
            "layers": [
                {"class": 0, "offset": layer * layer_bytes, "order": orders[layer], "checksums": checks}
                for layer, checks in enumerate(finished)
            ],
            "dense": {"bytes": size, **dense.to_json()},
            "origin": stated,
        }
        unfinished.commit(partial, output, manifest | {"checksum": manifest_checksum(manifest)})
    return Packed(output, spec.layers * layer_bytes, size, dense_quant, done)


def _write_experts(
    source: WeightSource,
    partial: Path,
    settings: dict[str, Any],
    finished: list[list[str]],
    record: RecordClass,
    quant: str,
    orders: list[list[int]],
    progress: bool,
) -> None:
    """Append the layers that aren't finished yet, journalling each; ``finished`` grows by their checksums."""
    layers, layer_bytes = source.spec.layers, source.spec.experts * record.stride
    begun = len(finished) * layer_bytes
    bar = tqdm(
        total=layers * layer_bytes,
        initial=begun,
        unit="B",
        unit_scale=True,
        desc="packing",
        disable=not progress,
        mininterval=0.1 if sys.stderr.isatty() else 10,  # seconds: a log file isn't a terminal
    )
    with bar, open(partial / EXPERTS, "r+b" if begun else "wb") as file:
        file.truncate(begun)
        file.seek(begun)
        for layer in range(len(finished), layers):
            finished.append(_write_layer(source, layer, orders[layer], record, quant, file, bar))
            file.flush()
            os.fsync(file.fileno())
            unfinished.replace_json(partial / unfinished.JOURNAL, {"settings": settings, "layers": finished})


def _write_layer(
    source: WeightSource, layer: int, order: list[int], record: RecordClass, quant: str, file: Any, bar: "tqdm[Any]"
) -> list[str]:
    """Append one layer's records in ``order``; returns their checksums."""
    checksums = []
    for expert in order:
        try:
            content = pack_record(source.expert(layer, expert), record, quant)
        except EStreamError as error:
            raise EStreamError(f"expert {expert} of layer {layer} can't be packed: {error}") from error
        checksums.append(xxhash.xxh3_64_hexdigest(content.data))
        file.write(content.data)
        bar.update(len(content))
    return checksums
