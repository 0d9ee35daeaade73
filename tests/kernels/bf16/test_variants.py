"""Every variant is chosen where it runs, holds the instruction that it is named for, and gives the same bits."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from estream_lab.kernels.bf16 import VARIANTS, description, variant
from estream_lab.kernels.bf16.dot import DOTS
from estream_lab.kernels.bf16.product import emit_product
from estream_lab.kernels.bf16.weights import Packed, Panel
from estream_lab.kernels.int8.features import choose
from tests.kernels.bf16.banks import Bank
from tests.kernels.int8.test_variants import APPLE, ARM, X86, assembly_of

ROOT = Path(__file__).parents[3]


@cache
def kernel_of(name: str, packed: bool, triple: str, processor: str) -> str:
    """A variant's micro-kernel."""
    source = Packed if packed else Panel
    return assembly_of(lambda *given: emit_product(given[0], DOTS[name], source, 1, *given[1:]), 5, triple, processor)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("name", "triple", "processor", "instruction"),
    [
        ("avx512-bf16", X86, "cooperlake", r"vdpbf16ps.*%zmm"),
        ("avx512-bf16", X86, "sapphirerapids", r"vdpbf16ps.*%zmm"),
        ("avx512-bf16", X86, "znver4", r"vdpbf16ps.*%zmm"),
        ("avx2", X86, "haswell", r"vfmadd.*ps.*%ymm"),
        ("avx2", X86, "znver3", r"vfmadd.*ps.*%ymm"),
        ("portable", ARM, "cortex-a72", r"\bfmla\b.*\.4s"),
        ("portable", APPLE, "apple-m1", r"\bfmla\b.*\.?4s"),
    ],
)
def test_compiles_to_its_instruction(name: str, packed: bool, triple: str, processor: str, instruction: str) -> None:
    dot, code = DOTS[name], kernel_of(name, packed, triple, processor)
    rows = dot.rows * (dot.rows + 1) // 2  # of all register blocks
    assert len(re.findall(instruction, code)) >= dot.steps * dot.vectors * rows
    # No call: a missing conversion or fused multiply-add would be one to a library.
    assert not re.findall(r"^\s+(?:callq?|bl)\s+(\S+)", code, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "processor", "register"),
    [("avx2", "znver3", "ymm"), ("avx2", "haswell", "ymm"), ("avx512-bf16", "znver4", "zmm")],
)
def test_register_blocks_fit_the_registers(name: str, processor: str, register: str) -> None:
    """A sum that LLVM keeps on the stack costs a load and a store a step; a few to spare for the largest block."""
    code = kernel_of(name, False, X86, processor)
    on_the_stack = re.findall(rf"\(%rsp\).*%{register}|%{register}.*\(%rsp\)", code)
    assert len(on_the_stack) <= 12, on_the_stack


def test_the_fastest_variant_is_chosen_whose_features_are_all_there() -> None:
    every = frozenset().union(*(v.needs for v in VARIANTS))
    assert choose(every, VARIANTS).name == "avx512-bf16"
    assert choose(every - {"avx512bf16"}, VARIANTS).name == "avx2"
    assert choose(frozenset({"avx2", "fma"}), VARIANTS).name == "portable"
    assert choose(frozenset({"neon", "dotprod", "bf16"}), VARIANTS).name == "portable"
    assert {v.name for v in VARIANTS} == set(DOTS)


def test_the_description_names_what_is_used_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert description().startswith(f"{variant().name} ({variant().instruction})")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    here = frozenset({"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl"})
    monkeypatch.setattr("estream_lab.kernels.int8.features.features", lambda: here)
    assert description() == "avx2 (fp32 vfmadd on 256 bits); avx512-bf16 lacks avx512bf16"


PROGRAM = """
import sys
from estream_lab.kernels.bf16 import variant
from tests.kernels.bf16.banks import Bank
assert variant().name == sys.argv[1], variant()
sys.stdout.buffer.write(Bank.random(7, 96, 160, [53, 4, 1]).run().tobytes())
"""


def test_a_processor_without_any_vector_instructions_gets_the_same_bits(tmp_path: Path) -> None:
    here = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, "portable"]
    got = subprocess.run(command, cwd=ROOT, env={**os.environ, **here}, check=True, capture_output=True).stdout
    assert got == Bank.random(7, 96, 160, [53, 4, 1]).run().tobytes()
