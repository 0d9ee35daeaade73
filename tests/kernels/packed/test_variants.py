"""Every variant is chosen where it runs, holds the instruction that it is named for, and gives the same bits."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from estream_lab.kernels import bf16, int8
from estream_lab.kernels.bf16.dot import DOTS as BF16
from estream_lab.kernels.bf16.product import register_block as bf16_block
from estream_lab.kernels.bf16.weights import Packed as Bf16Packed
from estream_lab.kernels.bf16.weights import Panel as Bf16Panel
from estream_lab.kernels.features import features
from estream_lab.kernels.int8.dot import DOTS as INT8
from estream_lab.kernels.int8.product import register_block as int8_block
from estream_lab.kernels.int8.weights import QUADS
from estream_lab.kernels.int8.weights import Packed as Int8Packed
from estream_lab.kernels.int8.weights import Panel as Int8Panel
from estream_lab.kernels.packed.product import emit_product
from estream_lab.kernels.packed.variants import choose
from tests.kernels.machine_code import APPLE, ARM, X86, assembly_of
from tests.kernels.packed.banks import BANKS

ROOT = Path(__file__).parents[3]
DOTS: dict[str, dict[str, Any]] = {"int8": INT8, "bf16": BF16}


@cache
def kernel_of(lane: str, name: str, packed: bool, triple: str, processor: str) -> str:
    """A variant's micro-kernel."""
    if lane == "int8":
        block = int8_block(INT8[name], Int8Packed if packed else Int8Panel)
    else:
        block = bf16_block(BF16[name], Bf16Packed if packed else Bf16Panel)
    sizes = range(1, DOTS[lane][name].rows + 1)
    return assembly_of(lambda builder, *given: emit_product(builder, block, sizes, *given), 5, triple, processor)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("lane", "name", "triple", "processor", "instruction"),
    [
        ("int8", "avx512-vnni", X86, "sapphirerapids", r"vpdpbusd.*%zmm"),
        ("int8", "avx512-vnni", X86, "znver4", r"vpdpbusd.*%zmm"),
        ("int8", "avx-vnni", X86, "alderlake", r"vpdpbusd.*%ymm"),
        ("int8", "avx2", X86, "haswell", r"vpmaddubsw.*%ymm"),
        ("int8", "avx2", X86, "znver3", r"vpmaddubsw.*%ymm"),
        ("int8", "neon-dot", ARM, "neoverse-n1", r"\bsdot\b"),
        ("int8", "neon-dot", APPLE, "apple-m1", r"\bsdot\b"),
        ("int8", "portable", X86, "x86-64", r"pmullw"),
        ("int8", "portable", ARM, "cortex-a72", r"\b(mul|mla)\b.*\.8h"),
        ("bf16", "avx512-bf16", X86, "cooperlake", r"vdpbf16ps.*%zmm"),
        ("bf16", "avx512-bf16", X86, "sapphirerapids", r"vdpbf16ps.*%zmm"),
        ("bf16", "avx512-bf16", X86, "znver4", r"vdpbf16ps.*%zmm"),
        ("bf16", "avx2", X86, "haswell", r"vfmadd.*ps.*%ymm"),
        ("bf16", "avx2", X86, "znver3", r"vfmadd.*ps.*%ymm"),
        ("bf16", "portable", ARM, "cortex-a72", r"\bfmla\b.*\.4s"),
        ("bf16", "portable", APPLE, "apple-m1", r"\bfmla\b.*\.?4s"),
    ],
)
def test_compiles_to_its_instruction(
    lane: str, name: str, packed: bool, triple: str, processor: str, instruction: str
) -> None:
    dot, code = DOTS[lane][name], kernel_of(lane, name, packed, triple, processor)
    rows = dot.rows * (dot.rows + 1) // 2  # of all register blocks
    steps = dot.steps if lane == "bf16" else QUADS * (2 if name == "portable" else 1)
    assert len(re.findall(instruction, code)) >= steps * dot.vectors * rows
    # No call: a missing conversion or fused multiply-add would be one to a library (x86-64 alone has no fma).
    calls = re.findall(r"^\s+(?:callq?|bl)\s+(\S+)", code, re.MULTILINE)
    assert bool(calls) == (processor == "x86-64"), calls


@pytest.mark.parametrize(
    ("lane", "name", "processor", "register"),
    [
        ("int8", "avx2", "znver3", "ymm"),
        ("int8", "avx2", "haswell", "ymm"),
        ("int8", "avx-vnni", "alderlake", "ymm"),
        ("int8", "avx512-vnni", "sapphirerapids", "zmm"),
        ("bf16", "avx2", "znver3", "ymm"),
        ("bf16", "avx2", "haswell", "ymm"),
        ("bf16", "avx512-bf16", "znver4", "zmm"),
    ],
)
def test_register_blocks_fit_the_registers(lane: str, name: str, processor: str, register: str) -> None:
    """A product that LLVM keeps on the stack costs a load and a store a step; a few to spare for the largest block."""
    code = kernel_of(lane, name, False, X86, processor)
    on_the_stack = re.findall(rf"\(%rsp\).*%{register}|%{register}.*\(%rsp\)", code)
    assert len(on_the_stack) <= 12, on_the_stack
    if name == "avx512-vnni":  # sums are stored once, when all blocks are done
        blocks = range(1, INT8[name].rows + 1)
        assert len(re.findall(rf"vmov\w+\s+%{register}\d+, -?\d*\(", code)) == 2 * sum(blocks)


def test_the_fastest_int8_variant_is_chosen_whose_features_are_all_there() -> None:
    every = frozenset().union(*(v.needs for v in int8.VARIANTS))
    assert choose(every, int8.VARIANTS).name == "avx512-vnni"
    assert choose(every - {"avx512vl"}, int8.VARIANTS).name == "avx-vnni"
    assert choose(every - {"avx512vnni", "avxvnni"}, int8.VARIANTS).name == "avx2"
    assert choose(frozenset({"avx2", "fma"}), int8.VARIANTS).name == "portable"
    assert choose(frozenset({"neon", "dotprod", "fullfp16"}), int8.VARIANTS).name == "neon-dot"
    assert choose(frozenset(), int8.VARIANTS).name == "portable"
    assert {v.name for v in int8.VARIANTS} == set(INT8)


def test_the_fastest_bf16_variant_is_chosen_whose_features_are_all_there() -> None:
    every = frozenset().union(*(v.needs for v in bf16.VARIANTS))
    assert choose(every, bf16.VARIANTS).name == "avx512-bf16"
    assert choose(every - {"avx512bf16"}, bf16.VARIANTS).name == "avx2"
    assert choose(frozenset({"avx2", "fma"}), bf16.VARIANTS).name == "portable"
    assert choose(frozenset({"neon", "dotprod", "bf16"}), bf16.VARIANTS).name == "portable"
    assert choose(frozenset(), bf16.VARIANTS).name == "portable"
    assert {v.name for v in bf16.VARIANTS} == set(BF16)


@pytest.mark.parametrize("room", [int8, bf16], ids=["int8", "bf16"])
def test_the_description_names_what_is_used(room: Any) -> None:
    assert room.description().startswith(f"{room.variant().name} ({room.variant().instruction})")


def test_the_description_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "estream_lab.kernels.packed.variants.features"
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(asked, lambda: frozenset({"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl"}))
    assert int8.description().endswith("; avx512-vnni lacks avx512vnni; avx-vnni lacks avxvnni")
    assert "neon" not in int8.description()
    assert bf16.description() == "avx2 (fp32 vfmadd on 256 bits); avx512-bf16 lacks avx512bf16"
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(asked, lambda: frozenset({"neon"}))
    assert int8.description().startswith("portable (") and int8.description().endswith("); neon-dot lacks dotprod")


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
from tests.kernels.packed.banks import BANKS
bank = BANKS[sys.argv[1]]
assert bank.room.variant().name == "portable", bank.room.variant()
sys.stdout.buffer.write(bank.random(7, 96, 160, [53, 4, 1]).run().tobytes())
"""


@pytest.mark.parametrize("lane", BANKS)
def test_a_processor_without_any_vector_instructions_gets_the_same_bits(lane: str, tmp_path: Path) -> None:
    here = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, lane]
    got = subprocess.run(command, cwd=ROOT, env={**os.environ, **here}, check=True, capture_output=True).stdout
    assert got == BANKS[lane].random(7, 96, 160, [53, 4, 1]).run().tobytes()
