"""What `bench prefill` compares: rows that each run the same model on the same prompts, here or in a peer's process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
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
        self.default = False
        self._store, self._profile, self.resident = store, profile, resident
        self._engine: PrefillEngine

    def prepare(self, tokens: int, threads: int) -> dict[str, Any]:
        """See `Row`."""
        self._engine = PrefillEngine.open(
            self._store, profile=self._profile, resident=self.resident, threads=threads, schedule="early"
        )
        self._engine.prepare(tokens)
        kinds = ("attention", "embedding", "head")
        experts = "f32" if self._store.layout == "f32" else "q4_0"
        return {"experts": experts, "dense": dict.fromkeys(kinds, "f32"), "resident": self.resident}

    def run(self, prompt: Prompt) -> float:
        """See `Row`."""
        return self._engine.prefill(prompt.ids).seconds

    def logits(self, prompt: Prompt) -> NDArray[np.float32]:
        """See `Row`."""
        output: NDArray[np.float32] = self._engine.prefill(prompt.ids).output  # (1, V)
        return output.reshape(-1)

    def release(self) -> None:
        """See `Row`."""
        self._engine.close()


PROFILES = ("host-int8", "host-f32")


def our_rows(store: Store) -> list[OurRow]:
    """Experts in int8 and in float32 arithmetic, resident and streamed."""
    return [OurRow(store, profile, resident=resident) for profile in PROFILES for resident in (True, False)]
