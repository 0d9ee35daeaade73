"""What `bench prefill` compares: rows that each run the same model on the same prompts, here or in a peer's process."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.experts.executors import host_profile
from estream_lab.streaming import Store


@dataclass(frozen=True)
class Prompt:
    """Token ids, int32 (T,), and the file of them that peers read."""

    ids: NDArray[np.int32]
    path: Path

    @classmethod
    def draw(cls, tokens: int, vocab: int, seed: int, path: Path) -> "Prompt":
        """Made-up tokens; each seed gives other ones."""
        ids = np.random.default_rng(seed).integers(0, vocab, tokens, np.int32)
        ids.astype("<i4").tofile(path)
        return cls(ids, path)


FIGURES = (
    "tokens", "seconds", "tokens_per_second", "peak_rss_bytes", "peak_memory_bytes", "store_bytes", "arena_bytes",
    "bytes_read", "bytes_needed", "bytes_speculative", "storage_idle", "npu_idle", "lane", "layout", "profile",
    "schedule", "group_size", "queue_depth", "banks", "logits_sha256", "top",
)  # fmt: skip
"""What a row tells of its last timed run, by the keys of `estream prefill --json`; None for what it has not.

Peaks are those of the process, which holds all its rows at once."""

LIKELIEST = 5


def of_logits(logits: NDArray[np.float32]) -> dict[str, Any]:
    """The figures that follow from logits (V,), of the untimed prompt that is the same for all rows."""
    wide = logits.astype(np.float64)
    logprobs = wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())
    first = np.argsort(-logprobs, kind="stable")[:LIKELIEST]
    top = [[int(i), f"<{i}>", float(logprobs[i])] for i in first]  # as the engine, for tokens that have no text
    return {"logits_sha256": hashlib.sha256(logits.tobytes()).hexdigest(), "top": top}


class Row(Protocol):
    """One implementation in one form.

    Attributes:
        implementation: 'estream', or the peer's name.
        name: of the form within the implementation.
        default: what the implementation does when nothing is chosen.
    """

    implementation: str
    name: str
    default: bool

    def prepare(self, tokens: int, threads: int) -> dict[str, Any]:
        """Make ready for prompts of so many tokens, and tell how: `experts` and `dense` are quantisations."""

    def run(self, prompt: Prompt) -> float:
        """Seconds of one prefill into an empty cache."""

    def logits(self, prompt: Prompt) -> NDArray[np.float32]:
        """(V,) after the last token, of an untimed prefill."""

    def figures(self) -> dict[str, Any]:
        """Those of `FIGURES` that the last run has."""

    def release(self) -> None:
        """Give the memory back."""


class OurRow:
    """A prefill of this package: see `Row`.

    Args:
        store: of the model.
        profile: of the experts' arithmetic, host-int8 or host-f32.
        resident: all experts in memory, or streamed early.
    """

    implementation = "estream"

    def __init__(self, store: Store, profile: str, *, resident: bool) -> None:
        self.name = f"{profile} {'resident' if resident else 'streaming'}"
        self.default = profile == host_profile(store.layout) and not resident  # as `estream prefill` runs
        self._store, self._profile, self.resident = store, profile, resident
        self._engine: PrefillEngine
        self._last: dict[str, Any] = {}

    def prepare(self, tokens: int, threads: int) -> dict[str, Any]:
        """See `Row`."""
        self._engine = PrefillEngine.open(
            self._store, profile=self._profile, resident=self.resident, threads=threads, schedule="early"
        )
        self._engine.prepare(tokens)
        kinds = ("attention", "embedding", "head")
        experts = "f32" if self._store.layout == "f32" else "q4_0"
        return {"experts": experts, "dense": dict.fromkeys(kinds, self._store.dense_quant), "resident": self.resident}

    def run(self, prompt: Prompt) -> float:
        """See `Row`."""
        result = self._engine.prefill(prompt.ids)
        self._last = result.to_json()
        return result.seconds

    def logits(self, prompt: Prompt) -> NDArray[np.float32]:
        """See `Row`."""
        output: NDArray[np.float32] = self._engine.prefill(prompt.ids).output  # (1, V)
        return output.reshape(-1)

    def figures(self) -> dict[str, Any]:
        """See `Row`."""
        sizes = {"store_bytes": self._store.nbytes, "peak_memory_bytes": self._last["peak_rss_bytes"]}
        return {key: self._last[key] for key in FIGURES if key in self._last} | sizes

    def release(self) -> None:
        """See `Row`."""
        self._engine.close()


PROFILES = ("host-int8", "host-f32")


def our_rows(store: Store) -> list[OurRow]:
    """Experts in int8 and in float32 arithmetic, resident and streamed."""
    return [OurRow(store, profile, resident=resident) for profile in PROFILES for resident in (True, False)]
