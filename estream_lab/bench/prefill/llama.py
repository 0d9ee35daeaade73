"""llama.cpp's rows: prefills in the peer's process (peers/llama_peer.py is the other side)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.bench.environment import peers_environment
from estream_lab.bench.peers import command
from estream_lab.bench.prefill.forms import Form
from estream_lab.bench.prefill.model import plain_model
from estream_lab.bench.prefill.rows import Prompt
from estream_lab.bench.session import Session
from estream_lab.streaming import Store

NAME = "llama.cpp"
DEADLINE_SECONDS = 3600.0  # llama.cpp searches long for the IQ4 forms of full-size models


@contextmanager
def llama() -> Iterator[Session]:
    """The peer, started, and ended again.

    Raises:
        EStreamError: its environment isn't there.
    """
    with Session(NAME, command(NAME), environment=peers_environment(), deadline=DEADLINE_SECONDS) as session:
        yield session


class Files:
    """The model's files, one a quantisation, made when they are first asked for and not there from an earlier run.

    Args:
        session: of the peer.
        store: of the model.
        folder: where they lie.
        threads: that quantise.
    """

    def __init__(self, session: Session, store: Store, folder: Path, threads: int) -> None:
        self._session, self._store, self._folder, self._threads = session, store, folder, threads
        made_by = session.ask("offer")["build"]["ggml"].replace(" ", "-")
        self._of = f"{store.checksum}-{made_by}"  # a kept folder may hold those of others

    def of(self, form: Form) -> Path:
        """The file for a form.

        Experts that are Q4_0 stay as they are when llama.cpp makes a Q4_0 file, and are quantised anew in the others.
        """
        plain = form.dense == "f32"
        path = self._folder / f"{'plain' if plain else form.quant}-{self._of}.gguf"
        if path.exists():
            return path
        unfinished = path.with_suffix(".part")
        if plain:
            weights = plain_model(self._store, self._folder)
            self._session.ask("write", **weights, into=str(unfinished))
            for made in {weights["experts"], weights["dense"]} - {str(self._store.dense.path)}:
                Path(made).unlink()
        else:
            source = str(self.of(Form(form.quant, dense="f32")))
            self._session.ask("quantise", source=source, quant=form.quant, threads=self._threads, into=str(unfinished))
        return unfinished.rename(path)


class LlamaRow:
    """One form: see `rows.Row`."""

    implementation = NAME

    def __init__(self, session: Session, form: Form, model: Path, folder: Path) -> None:
        self.name, self.default, self.form = form.name, form.default, form
        self._session, self._model, self._outputs = session, model, folder / "llama.logits"
        self._tokens, self._peak = 0, 0

    def prepare(self, tokens: int, threads: int) -> dict[str, Any]:
        """See `rows.Row`."""
        form = self.form
        found = self._session.ask(
            "prepare", row=self.name, model=str(self._model), tokens=tokens, threads=threads, repack=form.repack,
            ubatch=form.ubatch, flash=form.flash, cache=form.cache,
        )  # fmt: skip
        tensors = {kind: _types(types) for kind, types in found.pop("tensors").items()}
        experts = tensors.pop("experts")
        return {"experts": experts, "dense": tensors, **found}

    def run(self, prompt: Prompt) -> float:
        """See `rows.Row`."""
        found = self._session.ask("run", row=self.name, tokens=str(prompt.path), outputs=None)
        with self._session.answer_of("run"):
            self._tokens, self._peak = len(prompt.ids), int(found["peak_rss_bytes"])
            return float(found["seconds"])

    def logits(self, prompt: Prompt) -> NDArray[np.float32]:
        """See `rows.Row`."""
        self._session.ask("run", row=self.name, tokens=str(prompt.path), outputs=str(self._outputs))
        return np.fromfile(self._outputs, "<f4")

    def figures(self) -> dict[str, Any]:
        """See `rows.Row`."""
        peaks = {"peak_rss_bytes": self._peak, "peak_memory_bytes": self._peak}
        return {"tokens": self._tokens, "lane": NAME, "store_bytes": self._model.stat().st_size, **peaks}

    def release(self) -> None:
        """See `rows.Row`."""
        self._session.ask("release", row=self.name)


def _types(types: dict[str, int]) -> str:
    """A type, or all that there are with how many matrices have each."""
    return next(iter(types)) if len(types) == 1 else " ".join(f"{kind} x{count}" for kind, count in types.items())
