"""Machine code for other computers, as numba would make it of emitted code."""

from collections.abc import Callable

import llvmlite.binding as llvm
from llvmlite import ir

X86, ARM, APPLE = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macosx"


def module_of(emit: Callable[..., None], numbers: int) -> ir.Module:
    """A function of `numbers` 64-bit integers."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * numbers), "emitted")
    builder = ir.IRBuilder(function.append_basic_block())
    emit(builder, *function.args)
    builder.ret_void()
    return module


def assembly_of(emit: Callable[..., None], numbers: int, triple: str, processor: str) -> str:
    """That function in assembly."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = module_of(emit, numbers)
    module.triple = triple
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3)
    compiled = llvm.parse_assembly(str(module))
    compiled.verify()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(compiled, passes)
    return str(machine.emit_assembly(compiled))
