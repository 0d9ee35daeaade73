"""What numba compiles for: the processor's own features unless numba's settings say otherwise."""

import llvmlite.binding as llvm
import pytest
from numba import config

from estream_lab.kernels import features as module
from estream_lab.kernels.features import features
from estream_lab.kernels.host import vector_ir
from estream_lab.kernels.packed import variants


def test_are_the_processors_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {"avx2": True, "avx512f": True, "sse4a": False})
    assert features() == {"avx2", "avx512f"}


def test_numbas_settings_come_before_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CPU_FEATURES", "+avx2,-avx512f,+fma")
    assert features() == {"avx2", "fma"}
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    monkeypatch.setattr(config, "CPU_NAME", "generic")
    assert features() == frozenset()


def test_numba_without_avx_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ENABLE_AVX", 0)
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {"avx2": True, "avx512f": True, "fma": True})
    assert features() == {"fma"}


def test_processors_whose_features_the_system_hides_have_what_all_of_them_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "apple-m3")
    monkeypatch.setattr(llvm, "get_host_cpu_features", dict)
    assert features() == {"neon", "dotprod"}


def test_both_kinds_of_kernels_ask_here() -> None:
    assert vector_ir.features is variants.features is module.features  # type: ignore[attr-defined]
