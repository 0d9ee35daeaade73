"""The residency table under random interleavings of its transitions."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from estream_lab.experts import ResidencyError, ResidencyTable, SlotState

BANKS, GROUP, LAYERS, EXPERTS = 3, 2, 2, 5  # E isn't divisible by G


class Residency(RuleBasedStateMachine):
    """A plain model of banks beside the table: every transition is tried, allowed or not."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ResidencyTable(LAYERS, EXPERTS, BANKS, GROUP)
        self.model: list[tuple[SlotState, int, list[int], int]] = [(SlotState.AVAILABLE, -1, [], 0)] * BANKS

    def attempt(self, allowed: bool, action: str, *arguments: object) -> bool:
        """Carry out a transition; a forbidden one must be refused and change nothing."""
        before = self.table.state.copy()
        if allowed:
            getattr(self.table, action)(*arguments)
            return True
        with pytest.raises(ResidencyError):
            getattr(self.table, action)(*arguments)
        assert np.array_equal(before, self.table.state)
        return False

    @rule(
        bank=st.integers(0, BANKS - 1),
        layer=st.integers(0, LAYERS - 1),
        group=st.integers(0, 2),
        slices=st.integers(1, 2),
    )
    def assign(self, bank: int, layer: int, group: int, slices: int) -> None:
        experts = list(range(EXPERTS))[group * GROUP : (group + 1) * GROUP]
        owned = any(own[1] == layer and set(own[2]) & set(experts) for own in self.model)
        allowed = self.model[bank][0] is SlotState.AVAILABLE and not owned
        if self.attempt(allowed, "assign", bank, layer, np.array(experts, np.int32), slices):
            self.model[bank] = (SlotState.FILLING, layer, experts, slices)

    @rule(bank=st.integers(0, BANKS - 1))
    def slice_arrived(self, bank: int) -> None:
        state, layer, experts, missing = self.model[bank]
        if self.attempt(state is SlotState.FILLING, "slice_arrived", bank):
            ready = missing == 1
            self.model[bank] = (SlotState.READY if ready else state, layer, experts, missing - 1)

    @rule(bank=st.integers(0, BANKS - 1))
    def use(self, bank: int) -> None:
        if self.attempt(self.model[bank][0] is SlotState.READY, "use", bank):
            self.model[bank] = (SlotState.IN_USE, *self.model[bank][1:])

    @rule(bank=st.integers(0, BANKS - 1))
    def release(self, bank: int) -> None:
        if self.attempt(self.model[bank][0] in (SlotState.READY, SlotState.IN_USE), "release", bank):
            self.model[bank] = (SlotState.AVAILABLE, -1, [], 0)

    @invariant()
    def translations_are_those_of_ready_and_used_banks(self) -> None:
        expected = np.full((LAYERS, EXPERTS), -1)
        for bank, (state, layer, experts, _) in enumerate(self.model):
            assert self.table.bank_state(bank) is state
            if state in (SlotState.READY, SlotState.IN_USE):
                expected[layer, experts] = bank * GROUP + np.arange(len(experts))
        for layer in range(LAYERS):
            assert np.array_equal(self.table.placement(layer), expected[layer])

    @invariant()
    def no_slot_has_two_owners(self) -> None:
        visible = np.concatenate([self.table.placement(layer) for layer in range(LAYERS)])
        visible = visible[visible >= 0]
        assert len(np.unique(visible)) == len(visible)


TestResidency = Residency.TestCase


def test_placement_is_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        ResidencyTable(1, 4, 2, 2).placement(0)[0] = 1


@pytest.mark.parametrize(("experts", "slices"), [(0, 1), (3, 1), (2, 0)])
def test_assign_refuses_what_does_not_fit(experts: int, slices: int) -> None:
    with pytest.raises(ResidencyError, match="can't take"):
        ResidencyTable(1, 4, 2, 2).assign(0, 0, np.arange(experts, dtype=np.int32), slices)
