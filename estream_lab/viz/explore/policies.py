"""Policies tried on the real lane: what came out, or why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine, PrefillResult
from estream_lab.experts.decide import Policies, PolicyError
from estream_lab.streaming import Store
from estream_lab.trace import Provenance


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of a policy: `result`, or the `refusal`'s sentence ("" where there was none)."""

    policy: str
    refusal: str = ""
    result: PrefillResult | None = field(default=None, repr=False)

    @property
    def logits_sha256(self) -> str:
        """SHA-256 of the logits, "" where the policy was refused."""
        return self.result.logits_sha256 if self.result is not None else ""

    @property
    def provenance(self) -> Provenance:
        """Of the run, empty where the policy was refused."""
        return self.result.trace.provenance if self.result is not None else {}


def attempts(
    store: Store, tokens: Sequence[int] | NDArray[np.int32], policies: Mapping[str, Policies], **settings: Any
) -> list[Attempt]:
    """Prefill `tokens` under each policy with the hazard checker on; `settings` are the engine's (G, B, Q, ...).

    Raises `EStreamError` for anything but a refused policy, a hazard among them.
    """
    return [_attempt(store, tokens, name, chosen, settings) for name, chosen in policies.items()]


def _attempt(
    store: Store, tokens: Sequence[int] | NDArray[np.int32], name: str, policies: Policies, settings: Mapping[str, Any]
) -> Attempt:
    chosen: dict[str, Any] = {"schedule": policies.schedule, "retention": policies.retention, "check_hazards": True}
    try:
        with PrefillEngine.open(store, **chosen, **settings) as engine:
            return Attempt(name, result=engine.prefill(tokens))
    except PolicyError as error:
        return Attempt(name, refusal=str(error))
