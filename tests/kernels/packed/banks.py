"""Random experts and routes in q4-32x32, for tests of the operator in every lane."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels import bf16, host, int8
from estream_lab.kernels.bf16 import reference as bf16_reference
from estream_lab.kernels.int8 import reference as int8_reference
from estream_lab.kernels.layout import pack_q4_32x32
from estream_lab.kernels.quant import quantise_q4_0

F32 = NDArray[np.float32]


@dataclass
class Bank:
    """Random experts, packed into an arena, and routes to them."""

    room: ClassVar[Any]  # with expert_bank and Scratch
    numpy: ClassVar[Any]

    hidden: int
    ffn: int
    x: F32
    offsets: NDArray[np.int64]
    token: NDArray[np.int32]
    weight: F32
    arena: NDArray[np.uint8]
    planes: list[NDArray[np.int64]]  # gate, up, down: byte offset of each slot
    experts: list[tuple[int8_reference.Quantised, ...]]

    @classmethod
    def random(cls, seed: int, hidden: int, ffn: int, counts: list[int], tokens: int = 17) -> Self:
        rng = np.random.default_rng(seed)
        pieces: list[NDArray[np.uint8]] = []
        planes = np.zeros((3, len(counts)), np.int64)
        experts = {}
        at = 0
        for slot in rng.permutation(len(counts)):  # slots need not lie in order
            expert = []
            for j, shape in enumerate(((ffn, hidden), (ffn, hidden), (hidden, ffn))):
                expert.append(quantise_q4_0((rng.standard_normal(shape) / np.sqrt(shape[1])).astype(np.float32)))
                piece = pack_q4_32x32(*expert[-1])
                gap = np.full(4 * int(rng.integers(0, 9)), 0xFF, np.uint8)  # NaN, if read as scales
                pieces += [gap, piece]
                at += len(gap)
                planes[j, slot] = at
                at += len(piece)
            experts[int(slot)] = tuple(expert)
        routes = sum(counts)
        return cls(
            hidden,
            ffn,
            rng.standard_normal((tokens, hidden)).astype(np.float32),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            rng.integers(0, tokens, routes).astype(np.int32),  # a token may come twice
            rng.standard_normal(routes).astype(np.float32),
            np.concatenate(pieces),
            list(planes),
            [experts[slot] for slot in range(len(counts))],
        )

    def run(self, scratch: Any = None, y: F32 | None = None) -> F32:
        """y with the results added: zero if none is given."""
        y = np.zeros_like(self.x) if y is None else y
        scratch = scratch or self.room.Scratch(max(1, len(self.token)), self.hidden, self.ffn, host.threads())
        routes = (self.offsets, self.token, self.weight)
        self.room.expert_bank(self.x, y, *routes, self.arena, *self.planes, self.hidden, self.ffn, scratch)
        return y

    def expected(self, y: F32 | None = None) -> F32:
        """What NumPy says."""
        y = np.zeros_like(self.x) if y is None else y
        self.numpy.expert_bank(self.x, y, self.offsets, self.token, self.weight, self.experts)
        return y


class Int8Bank(Bank):
    """With activations in int8."""

    room, numpy = int8, int8_reference


class Bf16Bank(Bank):
    """With activations in bf16."""

    room, numpy = bf16, bf16_reference


BANKS: dict[str, type[Bank]] = {"int8": Int8Bank, "bf16": Bf16Bank}
