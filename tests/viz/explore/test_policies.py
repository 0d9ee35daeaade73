from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.mistakes import MISTAKES, Backwards
from estream_lab.experts.retention import KeepFirst
from estream_lab.experts.schedule import Early, OnDemand
from estream_lab.viz.explore.policies import attempts

Tokens = NDArray[np.int32]


def test_lawful_policies_give_the_engines_logits_and_wrong_ones_a_sentence(store: Path, tokens: Tokens) -> None:
    lawful = {
        "on demand": Policies(OnDemand()),
        "keeping": Policies(Early(), KeepFirst(1)),
        "odd": Policies(Backwards()),
    }
    found = attempts(store, tokens, lawful | MISTAKES, group_size=3, banks=2)
    assert [attempt.policy for attempt in found] == [*lawful, *MISTAKES]
    with PrefillEngine.open(store, resident=True, group_size=3) as engine:
        expected = engine.prefill(tokens).logits_sha256
    for attempt in found[:3]:
        assert attempt.refusal == "" and attempt.logits_sha256 == expected
        assert attempt.provenance["group_size"] == 3
    assert [attempt.provenance["retention"] for attempt in found[:3]] == ["nothing", "first", "nothing"]
    for attempt in found[3:]:
        assert attempt.result is None and attempt.logits_sha256 == "" and attempt.provenance == {}
        assert attempt.refusal.startswith(("schedule '", "retention '")) and attempt.policy in attempt.refusal


def test_what_is_no_policys_fault_is_not_taken_for_a_refusal(store: Path, tokens: Tokens) -> None:
    with pytest.raises(EStreamError, match="between 1 and"):
        attempts(store, tokens, {"early": Policies(Early())}, group_size=99)
