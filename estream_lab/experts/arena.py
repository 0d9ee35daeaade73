"""The expert arena: P fixed-address slots of one stride in one page-aligned allocation (paper section 4)."""

import mmap
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.shape import PAGE_BYTES, RecordClass


class Arena:
    """B banks of G slots; slot s starts at byte s * stride and holds one whole expert record (gate | up | down).

    The memory is anonymous and page-aligned, so that direct I/O reads straight into it. A bank's slots are adjacent:
    one plain read fills a bank with G consecutive records of a store.

    Args:
        banks: B >= 1.
        group_size: G >= 1.
        stride: slot stride in bytes, a multiple of the page size; the largest record stride of the store.
        poison: fill with 0xFF, which is NaN as float32 and as a float16 scale, at the start and whenever a bank is
            released: a record that is used before it has arrived, or after it was given up, then shows in the logits.
    """

    def __init__(self, banks: int, group_size: int, stride: int, *, poison: bool = False) -> None:
        if banks < 1 or group_size < 1:
            raise EStreamError(f"an arena needs at least one bank of one slot, not {banks} banks of {group_size}")
        if stride <= 0 or stride % PAGE_BYTES:
            raise ValueError(f"slot stride {stride} is not a positive multiple of {PAGE_BYTES}")
        self.banks, self.group_size, self.stride, self.poisoned = banks, group_size, stride, poison
        try:
            self._map = _memory(banks * group_size * stride)
        except (OSError, OverflowError) as error:
            raise EStreamError(
                f"no memory for {banks} banks of {group_size} records of {stride} bytes: choose a smaller arena"
            ) from error
        self.memory: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)  # (B * G * stride,)
        if poison:
            self.memory.fill(0xFF)

    @property
    def slots(self) -> int:
        """P = B * G."""
        return self.banks * self.group_size

    @property
    def nbytes(self) -> int:
        """M_arena = B * G * stride."""
        return len(self.memory)

    def bank_view(self, bank: int, records: int, record_bytes: int) -> list[memoryview]:
        """Where a read of ``records`` consecutive records of ``record_bytes`` each goes: one view if strides are equal.

        A class with smaller records than the slot stride needs one view a slot (a vectored read).
        """
        start = bank * self.group_size * self.stride
        view = memoryview(self._map)
        if record_bytes == self.stride:
            return [view[start : start + records * record_bytes]]
        return [view[start + i * self.stride : start + i * self.stride + record_bytes] for i in range(records)]

    def release(self, bank: int) -> None:
        """Tell that ``bank`` holds nothing any more (poisoned if asked for)."""
        if self.poisoned:
            size = self.group_size * self.stride
            self.memory[bank * size : (bank + 1) * size] = 0xFF

    def addresses(
        self, slots: NDArray[np.int32], record: RecordClass
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Byte offsets p_s^j = B^j + s * stride of gate, up and down for each slot.

        Args:
            slots: int32 (S,).
            record: the class of the records in those slots.

        Returns:
            Three int64 (S,) arrays of offsets into `memory`.
        """
        gate = slots.astype(np.int64) * self.stride  # (S,)
        return gate, gate + record.gate_bytes, gate + record.gate_bytes + record.up_bytes


def _memory(size: int) -> mmap.mmap:
    """Zeros of this process alone, in huge pages where the system has them: a kernel walks through all of it, and each
    page that it comes to costs a translation. Memory that children share would be under another setting of the system.
    """
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
