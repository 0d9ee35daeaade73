"""Which expert lives in which slot: the residency table and its slot states (paper section 4)."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class SlotState(IntEnum):
    """Available -> Filling -> Ready -> InUse -> Available; Ready -> Available where no routed work came; InUse -> Ready
    where a group is kept for a later pass over its layer."""

    AVAILABLE = 0
    FILLING = 1
    READY = 2
    IN_USE = 3


class ResidencyError(RuntimeError):
    """A transition that the protocol forbids: a fault of the caller, never of the user's input."""


class ResidencyTable:
    """Slot states, owners and the published placement map of an arena of B banks of G slots.

    A bank is assigned, published and given up as a whole: its translations become visible together once all of its
    slices have arrived, and vanish together. A translation is visible only while its slot is Ready or InUse.

    Only the placement map is an array: the rest is a handful of items a bank, touched between kernels that have emptied
    the caches, where a NumPy call costs several times what it costs in a loop.

    Args:
        layers, experts: the owners' ranges (L, E).
        banks, group_size: the arena's B and G.
    """

    def __init__(self, layers: int, experts: int, banks: int, group_size: int) -> None:
        self.banks, self.group_size = banks, group_size
        self.state = [SlotState.AVAILABLE] * banks  # of all slots of a bank
        self._placement = np.full((layers, experts), -1, np.int32)  # (L, E), Phi
        self._bank_of = [[-1] * experts for _ in range(layers)]  # from the first byte read on
        self._owner: list[tuple[int, list[int]] | None] = [None] * banks  # a layer and its experts, in place order
        self._missing = [0] * banks  # slices still to arrive

    def placement(self, layer: int) -> NDArray[np.int32]:
        """Phi of ``layer``: int32 (E,), the slot of each visible expert, else -1. A read-only view."""
        view: NDArray[np.int32] = self._placement[layer]
        view.flags.writeable = False
        return view

    def bank_state(self, bank: int) -> SlotState:
        """State of the bank's slots (they move together)."""
        return self.state[bank]

    def assign(self, bank: int, layer: int, experts: NDArray[np.int32], slices: int = 1) -> None:
        """Available -> Filling: record the owners before the first byte is read.

        Args:
            experts: int32 (n,), 1 <= n <= G, in place order; none of them may own another slot.
            slices: how many reads fill the bank.
        """
        self._expect(bank, SlotState.AVAILABLE, "assign")
        if not 1 <= len(experts) <= self.group_size or slices < 1:
            raise ResidencyError(f"bank {bank} can't take {len(experts)} experts in {slices} slices")
        owned, bank_of = experts.tolist(), self._bank_of[layer]
        for expert in owned:
            if (other := bank_of[expert]) >= 0:
                raise ResidencyError(f"expert {expert} of layer {layer} given to bank {bank} is owned by bank {other}")
        for expert in owned:
            bank_of[expert] = bank
        self._owner[bank] = (layer, owned)
        self._missing[bank] = slices
        self.state[bank] = SlotState.FILLING

    def slice_arrived(self, bank: int) -> bool:
        """One slice is in; after the last, Filling -> Ready and all translations appear. Returns whether it's Ready."""
        self._expect(bank, SlotState.FILLING, "fill")
        self._missing[bank] -= 1
        if self._missing[bank]:
            return False
        layer, experts = self._owned(bank)
        for slot, expert in enumerate(experts, bank * self.group_size):
            self._placement[layer, expert] = slot
        self.state[bank] = SlotState.READY
        return True

    def use(self, bank: int) -> None:
        """Ready -> InUse: an invocation that reads the bank is submitted."""
        self._expect(bank, SlotState.READY, "use")
        self.state[bank] = SlotState.IN_USE

    def keep(self, bank: int) -> None:
        """InUse (last completion) or Ready (no routed work) -> Ready: kept for a later pass, translations stay."""
        if self.bank_state(bank) not in (SlotState.IN_USE, SlotState.READY):
            raise ResidencyError(f"bank {bank} can't be kept while {self.bank_state(bank).name}")
        self.state[bank] = SlotState.READY

    def release(self, bank: int) -> None:
        """InUse (last completion) or Ready (no routed work) -> Available; the bank's translations vanish together."""
        if self.bank_state(bank) not in (SlotState.IN_USE, SlotState.READY):
            raise ResidencyError(f"bank {bank} can't be released while {self.bank_state(bank).name}")
        layer, experts = self._owned(bank)
        for expert in experts:
            self._placement[layer, expert] = self._bank_of[layer][expert] = -1
        self._owner[bank] = None
        self._missing[bank] = 0
        self.state[bank] = SlotState.AVAILABLE

    def _owned(self, bank: int) -> tuple[int, list[int]]:
        owner = self._owner[bank]
        if owner is None:
            raise ResidencyError(f"bank {bank} has no owner")
        return owner

    def _expect(self, bank: int, state: SlotState, action: str) -> None:
        if self.bank_state(bank) is not state:
            raise ResidencyError(f"can't {action} bank {bank}: it is {self.bank_state(bank).name}, not {state.name}")
