"""Policies as the engine takes them: how many banks make sense, what a result says, what is refused."""

from pathlib import Path

import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.experts.retention import KeepFirst, KeepLatest
from estream_lab.experts.schedule import CarryOver, Early

TOKENS = list(range(33))


def test_banks_beyond_a_layers_groups_are_for_what_is_kept_or_carried_over(store_path: Path) -> None:
    """The store has three layers of ten experts: two groups of five."""
    with PrefillEngine.open(store_path, group_size=5, banks=6) as plain:
        assert plain.prefill(TOKENS).banks == 2
    with PrefillEngine.open(store_path, group_size=5, banks=6, carry_over=True) as carried:
        assert carried.prefill(TOKENS).banks == 4
    with PrefillEngine.open(store_path, group_size=5, banks=6, retention=KeepLatest()) as keeping:
        first, second = keeping.prefill(TOKENS), keeping.prefill(TOKENS)
    assert first.banks == 6 and first.bytes_read > 0
    assert second.bytes_read == 0 and second.bytes_kept == first.bytes_read  # everything has come to stay
    assert second.logits_sha256 == first.logits_sha256


@pytest.mark.parametrize("settings", [{"carry_over": True}, {"schedule": CarryOver()}])
def test_a_result_says_how_it_was_scheduled(store_path: Path, settings: dict[str, object]) -> None:
    with PrefillEngine.open(store_path, retention=KeepFirst(1), group_size=3, **settings) as engine:
        result = engine.prefill(TOKENS)
    assert (result.schedule, result.carry_over, result.retention) == ("early", True, "first")
    assert result.trace.provenance["carry_over"] is True
    with PrefillEngine.open(store_path, schedule=Early()) as engine:
        assert engine.prefill(TOKENS).carry_over is False


def test_keeping_every_bank_is_refused(store_path: Path) -> None:
    with pytest.raises(EStreamError, match="keeping 3 of 3 banks leaves none to read into"):
        PrefillEngine.open(store_path, retention=KeepFirst(3), group_size=3, banks=3)
