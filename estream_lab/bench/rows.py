"""What a bench compares: rows that each compute the same layer, here or in a peer's process."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from estream_lab.bench.inputs import Inputs
from estream_lab.bench.session import Session
from estream_lab.bench.weights import Dequantised, Weights

_T = TypeVar("_T")


@dataclass(frozen=True)
class Job:
    """One layer at one size: `tokens` T, computed with `threads` threads; peers leave their files in `folder`."""

    weights: Weights
    tokens: int
    threads: int
    folder: Path


@dataclass(frozen=True)
class Prepared:
    """What a row says of itself once it is ready.

    Attributes:
        arithmetic: of its products: 'int8', 'bf16' or 'fp32'; which measured peak it is held to.
        own_weights: its weights are not the Q4_0 ones.
        notes: what else belongs into a result.
    """

    arithmetic: str
    own_weights: bool
    notes: dict[str, Any]


class Row(Protocol):
    """One implementation in one form.

    Attributes:
        implementation: 'estream', or the peer's name.
        name: of the form within the implementation.
        quant: of the weights.
        default: what the implementation does with Q4_0 weights when nothing is chosen (of a peer, the first such row
            that is supported).
        bytes_per_weight: of the weights that it multiplies by.
        copies: of them that it holds.
        process: id of the process that computes it; None for this one.
    """

    implementation: str
    name: str
    quant: str
    default: bool
    bytes_per_weight: float
    copies: int
    process: int | None

    def prepare(self, job: Job) -> Prepared:
        """Place the weights; raises `session.Unsupported`."""

    def run(self, inputs: Inputs) -> float:
        """Seconds of one call, from activations and routes to y."""

    def output(self, inputs: Inputs) -> NDArray[np.float32]:
        """y (T, H) of an untimed call."""

    def weights(self) -> Dequantised:
        """The weights that it computes with, where `Prepared.own_weights`."""

    def release(self) -> None:
        """Give the memory back."""


class PeerRow:
    """A row of a peer: see `Row`."""

    def __init__(self, session: Session, offered: dict[str, Any]) -> None:
        self._session = session
        self.implementation = session.name
        self.name, self.quant = str(offered["name"]), str(offered["quant"])
        self.default = bool(offered["default"])
        self.bytes_per_weight, self.copies = float(offered["bytes_per_weight"]), int(offered["copies"])
        self.process: int | None = session.process
        self._job: Job

    def prepare(self, job: Job) -> Prepared:
        """See `Row`."""
        self._job, weights, shape = job, job.weights, job.weights.shape
        sizes = {"hidden": shape.hidden, "ffn": shape.ffn, "experts": shape.experts, "top_k": shape.top_k}
        files = {"distinct": weights.distinct, "weights": str(weights.plain), "blocks": str(weights.blocks)}
        layer = {**sizes, **files, "tokens": job.tokens, "threads": job.threads}
        found = self._session.ask("prepare", row=self.name, layer=layer)
        with self._session.answer_of("prepare"):
            return Prepared(str(found.pop("arithmetic")), bool(found.pop("own_weights")), found)

    def run(self, inputs: Inputs) -> float:
        """See `Row`."""
        found = self._session.ask("run", row=self.name, inputs=str(inputs.path), outputs=None)
        with self._session.answer_of("run"):
            return float(found["seconds"])

    def output(self, inputs: Inputs) -> NDArray[np.float32]:
        """See `Row`."""
        return self._from_file(
            "outputs", "run", lambda path: np.fromfile(path, "<f4").reshape(inputs.x.shape), inputs=str(inputs.path)
        )

    def weights(self) -> Dequantised:
        """See `Row`."""
        return self._from_file("into", "weights", self._job.weights.of_file)

    def release(self) -> None:
        """See `Row`."""
        self._session.ask("release", row=self.name)

    def _from_file(self, key: str, do: str, read: Callable[[Path], _T], **request: Any) -> _T:
        """What the peer writes into a file that doesn't outlive this call (a mapping of it does)."""
        path = self._job.folder / f"{self.implementation}.{do}"
        try:
            self._session.ask(do, row=self.name, **request, **{key: str(path)})
            return read(path)
        finally:
            path.unlink(missing_ok=True)
