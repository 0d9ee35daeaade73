"""What quantised dense weights change of a model's results, and what they take in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from estream_lab.evaluate.bits import Window, read_text, windows
from estream_lab.evaluate.runs import Change, change, run, size_bytes
from estream_lab.experts.executors import HOST
from estream_lab.models.dense import dense_memory
from estream_lab.models.tokenizer import Tokenizer
from estream_lab.streaming import Store
from estream_lab.streaming.dense import DENSE_QUANTS, KEEP
from estream_lab.streaming.pack import pack


@dataclass(frozen=True)
class DenseRow:
    """A model with dense weights of one kind.

    Attributes:
        quant: as a store says it (`Store.dense_quant`).
        stored_bytes, held_bytes: of all dense weights, in the store and in memory.
        bits_per_byte: that the text costs.
        change: against dense weights as the checkpoint has them.
    """

    quant: str
    stored_bytes: int
    held_bytes: int
    bits_per_byte: float
    change: Change


def dense_rows(checkpoint: Path, texts: Sequence[Path], count: int, length: int, *, threads: int = 1) -> list[DenseRow]:
    """The checkpoint with its own dense weights, then with every quantisation of them; experts in Q4_0 and float32.

    Args:
        checkpoint: folder of a transformers checkpoint.
        texts: to be read, in `count` windows of `length` predicted tokens each.
        threads: of the engine; they change no bit.

    Raises:
        EStreamError: a checkpoint that can't be used, or texts that can't be read or are too short.
    """
    tokenizer = Tokenizer.from_files(checkpoint)
    found = [window for path in texts for window in windows(tokenizer, read_text(path), length, count)]
    with TemporaryDirectory(prefix="estream-dense-") as folder:
        stores = [_store(checkpoint, Path(folder), quant) for quant in (KEEP, *DENSE_QUANTS)]
        return _rows(stores, found, threads)


def _store(checkpoint: Path, folder: Path, quant: str) -> Store:
    return Store(pack(checkpoint, folder / f"{quant}.estream", dense_quant=quant, progress=False).path)


def _rows(stores: Sequence[Store], found: Sequence[Window], threads: int) -> list[DenseRow]:
    reference = run(stores[0], found, HOST, threads=threads)
    rows = []
    for store in stores:
        mine = run(store, found, HOST, threads=threads)
        held, _ = dense_memory(store.spec, store.dense.kinds)
        bits = mine.bits(found) / size_bytes(found)
        rows.append(DenseRow(store.dense_quant, store.dense.nbytes, held, bits, change(mine, reference, found)))
    return rows
