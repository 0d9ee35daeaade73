"""Every variant is chosen where it runs, holds the instruction that it is named for, and gives the same bits."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from estream_lab.kernels.features import features
from estream_lab.kernels.int8 import VARIANTS, description, variant
from estream_lab.kernels.int8.dot import DOTS
from estream_lab.kernels.int8.features import choose
from estream_lab.kernels.int8.product import emit_product
from estream_lab.kernels.int8.weights import Packed, Panel
from tests.kernels.int8.banks import Bank

ROOT = Path(__file__).parents[3]
X86, ARM, APPLE = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macosx"


def assembly_of(emit: Callable[..., None], numbers: int, triple: str, processor: str) -> str:
    """A function of `numbers` 64-bit integers, compiled for another machine as numba would."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = ir.Module()
    module.triple = triple
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * numbers), "emitted")
    builder = ir.IRBuilder(function.append_basic_block())
    emit(builder, *function.args)
    builder.ret_void()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3)
    compiled = llvm.parse_assembly(str(module))
    compiled.verify()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(compiled, passes)
    return str(machine.emit_assembly(compiled))


@cache
def kernel_of(name: str, packed: bool, triple: str, processor: str) -> str:
    """A variant's micro-kernel."""
    source = Packed if packed else Panel
    return assembly_of(lambda *given: emit_product(given[0], DOTS[name], source, 1, *given[1:]), 5, triple, processor)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("name", "triple", "processor", "instruction"),
    [
        ("avx512-vnni", X86, "sapphirerapids", r"vpdpbusd.*%zmm"),
        ("avx512-vnni", X86, "znver4", r"vpdpbusd.*%zmm"),
        ("avx-vnni", X86, "alderlake", r"vpdpbusd.*%ymm"),
        ("avx2", X86, "haswell", r"vpmaddubsw.*%ymm"),
        ("avx2", X86, "znver3", r"vpmaddubsw.*%ymm"),
        ("neon-dot", ARM, "neoverse-n1", r"\bsdot\b"),
        ("neon-dot", APPLE, "apple-m1", r"\bsdot\b"),
        ("portable", X86, "x86-64", r"pmullw"),
        ("portable", ARM, "cortex-a72", r"\b(mul|mla)\b.*\.8h"),
    ],
)
def test_compiles_to_its_instruction(name: str, packed: bool, triple: str, processor: str, instruction: str) -> None:
    dot, code = DOTS[name], kernel_of(name, packed, triple, processor)
    rows = dot.rows * (dot.rows + 1) // 2  # of all register blocks
    found = len(re.findall(instruction, code))
    each = 2 if name == "portable" else 1
    assert found >= 8 * dot.vectors * rows * each
    # No call: a missing conversion or fused multiply-add would be one to a library (x86-64 alone has no fma).
    calls = re.findall(r"^\s+(?:callq?|bl)\s+(\S+)", code, re.MULTILINE)
    assert bool(calls) == (processor == "x86-64"), calls


@pytest.mark.parametrize(
    ("name", "processor", "register"),
    [
        ("avx2", "znver3", "ymm"),
        ("avx2", "haswell", "ymm"),
        ("avx-vnni", "alderlake", "ymm"),
        ("avx512-vnni", "sapphirerapids", "zmm"),
    ],
)
def test_register_blocks_fit_the_registers(name: str, processor: str, register: str) -> None:
    """A product that LLVM keeps on the stack costs a load and a store a step; a few to spare for the largest block."""
    code = kernel_of(name, False, X86, processor)
    on_the_stack = re.findall(rf"\(%rsp\).*%{register}|%{register}.*\(%rsp\)", code)
    assert len(on_the_stack) <= 12, on_the_stack
    if name == "avx512-vnni":  # sums are stored once, when all blocks are done
        blocks = range(1, DOTS[name].rows + 1)
        assert len(re.findall(rf"vmov\w+\s+%{register}\d+, -?\d*\(", code)) == 2 * sum(blocks)


def test_the_fastest_variant_is_chosen_whose_features_are_all_there() -> None:
    every = frozenset().union(*(v.needs for v in VARIANTS))
    assert choose(every).name == "avx512-vnni"
    assert choose(every - {"avx512vl"}).name == "avx-vnni"
    assert choose(every - {"avx512vnni", "avxvnni"}).name == "avx2"
    assert choose(frozenset({"avx2", "fma"})).name == "portable"
    assert choose(frozenset({"neon", "dotprod", "fullfp16"})).name == "neon-dot"
    assert choose(frozenset()).name == "portable"
    assert {v.name for v in VARIANTS} == set(DOTS)


def test_the_description_names_what_is_used_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert description().startswith(f"{variant().name} ({variant().instruction})")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("estream_lab.kernels.int8.features.features", lambda: frozenset({"avx2", "fma", "f16c"}))
    assert description().endswith("; avx-vnni lacks avxvnni")
    assert "neon" not in description()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr("estream_lab.kernels.int8.features.features", lambda: frozenset({"neon"}))
    assert description().startswith("portable (") and description().endswith("); neon-dot lacks dotprod")


def test_numba_settings_count_before_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.config.CPU_NAME", "generic")
    assert features() == frozenset()
    monkeypatch.setattr("numba.config.CPU_FEATURES", "+avx2,-avxvnni,+fma,+f16c")
    assert features() == {"avx2", "fma", "f16c"}
    monkeypatch.undo()
    monkeypatch.setattr("numba.config.ENABLE_AVX", 0)
    assert not [name for name in features() if name.startswith("avx")]


PROGRAM = """
import sys
from estream_lab.kernels.int8 import variant
from tests.kernels.int8.banks import Bank
assert variant().name == "portable", variant()
sys.stdout.buffer.write(Bank.random(7, 96, 160, [23, 4, 1]).run().tobytes())
"""


def test_a_processor_without_any_dot_product_gets_the_same_bits(tmp_path: Path) -> None:
    here = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    got = subprocess.run(command, cwd=ROOT, env={**os.environ, **here}, check=True, capture_output=True).stdout
    assert got == Bank.random(7, 96, 160, [23, 4, 1]).run().tobytes()
