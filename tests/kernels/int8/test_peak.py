"""The peak is made of the instructions that it counts, and of nothing that a register block could do without."""

import re

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from estream_lab.kernels import host
from estream_lab.kernels.int8.dot import DOTS
from estream_lab.kernels.int8.peak import CHAINS, emit_peak, multiply_adds, peak
from estream_lab.kernels.int8.weights import QUADS
from tests.kernels.int8.test_variants import ARM, X86, assembly_of


@pytest.mark.parametrize(
    ("name", "triple", "processor", "wanted"),
    [
        ("avx2", X86, "znver3", {"vpmaddubsw": 8, "vpaddw": 8, "vpmaddwd": 1, "vpaddd": 1}),
        ("avx-vnni", X86, "alderlake", {"vpdpbusd": 8}),
        ("avx512-vnni", X86, "sapphirerapids", {"vpdpbusd": 8}),
        ("neon-dot", ARM, "neoverse-n1", {"sdot": 8}),
    ],
)
def test_a_turn_has_the_instructions_that_are_counted(
    name: str, triple: str, processor: str, wanted: dict[str, int]
) -> None:
    code = assembly_of(lambda builder, *arguments: emit_peak(builder, DOTS[name], *arguments), 2, triple, processor)
    for instruction, each in wanted.items():
        assert len(re.findall(rf"\b{instruction}\b", code)) == each * CHAINS
    assert not re.search(r"mm\d+, -?\d*\(%rsp\)|q\d+, \[sp", code)  # nothing is kept on the stack
    assert multiply_adds(DOTS[name]) == CHAINS * QUADS * DOTS[name].lanes * 4


def test_is_a_rate() -> None:
    assert 1e8 < peak(1, rounds=2) < 1e14
    assert peak(host.thread_limit(), rounds=2) > 1e8


def test_every_variant_is_valid_code() -> None:
    for dot in DOTS.values():
        module = ir.Module()
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 2), "peak")
        builder = ir.IRBuilder(function.append_basic_block())
        emit_peak(builder, dot, *function.args)
        builder.ret_void()
        llvm.parse_assembly(str(module)).verify()
