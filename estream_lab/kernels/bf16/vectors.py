"""The type of bf16 numbers in LLVM IR, which llvmlite has no name for."""

from __future__ import annotations

from llvmlite import ir


class _BFloat(ir.Type):  # type: ignore[misc]
    """`bfloat`: the upper half of an fp32 number."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


BF16 = _BFloat()
