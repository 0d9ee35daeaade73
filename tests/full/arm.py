"""A program for AArch64 around the int8 micro-kernels, made from the IR that numba is given; qemu-user runs it."""

import subprocess
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from estream_lab.kernels.int8.dot import DOTS, Dot
from estream_lab.kernels.int8.dot_q8 import DOTS_Q8
from estream_lab.kernels.int8.product import register_block
from estream_lab.kernels.int8.records import RECORD_BYTES, emit_record
from estream_lab.kernels.int8.weights import (
    Octets,
    Packed,
    Panel,
    Source,
    emit_decode,
)
from estream_lab.kernels.packed.product import emit_product
from estream_lab.kernels.vectors import I8, I64, loop

TRIPLE = "aarch64-unknown-linux-gnu"
PROCESSORS = {"neon-dot": "neoverse-n1", "portable": "cortex-a72"}  # the second has no dot product
SOURCES: dict[str, type[Source]] = {"packed": Packed, "panel": Panel, "octets": Octets}
ROOM = 1 << 20
HEADER = 16  # rows, blocks
READ, WRITE, EXIT = 63, 64, 93  # Linux' numbers of system calls on AArch64
SYSTEM_CALL = """
.global system_call
system_call:
    mov x8, x0
    mov x0, x1
    mov x1, x2
    mov x2, x3
    svc #0
    ret
"""


def build(variant: str, source: str, folder: Path) -> Path:
    """Compile and link the program of a variant and a source of weights.

    It reads rows and blocks (int64), activations (rows, 32 * blocks), sums (rows, 32) and a strip of weights, all from
    standard input, and writes the records and the sums with the products added.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(cpu=PROCESSORS[variant], opt=3, reloc="static", codemodel="small")
    module = llvm.parse_assembly(str(_program(variant, source)))
    module.verify()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    program = folder / f"{variant}-{source}"
    whole, call = (str(program) + suffix for suffix in (".o", "-call.o"))
    Path(whole).write_bytes(machine.emit_object(module))
    assemble = ["aarch64-linux-gnu-as", "-o", call]
    subprocess.run(assemble, input=SYSTEM_CALL, text=True, check=True, timeout=60)
    subprocess.run(["aarch64-linux-gnu-ld", "-static", "-o", str(program), whole, call], check=True, timeout=60)
    return program


def run(
    program: Path, variant: str, x: NDArray[np.float32], w: NDArray[np.uint8], sums: NDArray[np.float32]
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Records (blocks, rows, 40) and sums (rows, 32) of a program run by qemu as the variant's processor."""
    rows, blocks = len(x), x.shape[1] // 32
    given = b"".join(a.tobytes() for a in (np.array([rows, blocks]), x, sums, w))
    qemu = ["qemu-aarch64", "-cpu", PROCESSORS[variant], str(program)]
    out = subprocess.run(qemu, input=given, capture_output=True, check=True, timeout=120).stdout
    size = rows * blocks * RECORD_BYTES
    records = np.frombuffer(out[:size], np.uint8).reshape(blocks, rows, RECORD_BYTES)
    return records, np.frombuffer(out[size:], np.float32).reshape(rows, 32)


def _program(variant: str, source: str) -> ir.Module:
    module = ir.Module()
    module.triple = TRIPLE
    start = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "_start")
    builder = ir.IRBuilder(start.append_basic_block())
    given, records, panel = (_room(builder, name) for name in ("given", "records", "panel"))
    _read_all(builder, given)
    rows, blocks = (builder.load(builder.inttoptr(builder.add(given, I64(8 * i)), I64.as_pointer())) for i in range(2))
    x = builder.add(given, I64(HEADER))
    sums = builder.add(x, builder.mul(builder.mul(rows, blocks), I64(128)))
    w = builder.add(sums, builder.mul(rows, I64(128)))
    dot = (DOTS_Q8 if source == "octets" else DOTS)[variant]
    size = builder.mul(builder.mul(rows, blocks), I64(RECORD_BYTES))
    _quantise(builder, dot, rows, blocks, x, records)
    if source == "panel":
        emit_decode(dot, builder, w, blocks, panel)
        w = panel
    block = register_block(dot, SOURCES[source])
    emit_product(builder, block, range(1, dot.rows + 1), rows, records, w, blocks, sums)
    _call(builder, WRITE, I64(1), records, size)
    _call(builder, WRITE, I64(1), sums, builder.mul(rows, I64(128)))
    _call(builder, EXIT, I64(0), I64(0), I64(0))
    builder.unreachable()
    return module


def _room(builder: ir.IRBuilder, name: str) -> ir.Value:
    """The address of memory of the program's own."""
    kind = ir.ArrayType(I8, ROOM)
    memory = ir.GlobalVariable(builder.module, kind, name)
    memory.initializer, memory.align = ir.Constant(kind, None), 64
    return builder.ptrtoint(memory, I64)


def _call(builder: ir.IRBuilder, number: int, *arguments: ir.Value) -> ir.Value:
    """A system call with three arguments."""
    function = builder.module.globals.get("system_call")
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(I64, [I64] * 4), "system_call")
    return builder.call(function, [I64(number), *arguments])


def _read_all(builder: ir.IRBuilder, to: ir.Value) -> None:
    """Read standard input to its end."""
    before, body, done = builder.block, builder.append_basic_block("read"), builder.append_basic_block("all")
    builder.branch(body)
    builder.position_at_end(body)
    place = builder.phi(I64)
    some = _call(builder, READ, I64(0), place, I64(ROOM))
    place.add_incoming(to, before)
    place.add_incoming(builder.add(place, some), body)
    builder.cbranch(builder.icmp_signed(">", some, I64(0)), body, done)
    builder.position_at_end(done)


def _quantise(
    builder: ir.IRBuilder, dot: Dot, rows: ir.Value, blocks: ir.Value, x: ir.Value, records: ir.Value
) -> None:
    """The records of all rows, block of inputs after block of inputs."""
    of_row, of_block = builder.mul(blocks, I64(128)), builder.mul(rows, I64(RECORD_BYTES))
    with (
        loop(builder, blocks, (x, I64(128)), (records, of_block)) as (first, record),
        loop(builder, rows, (first, of_row), (record, I64(RECORD_BYTES))) as (values, to),
    ):
        emit_record(builder, dot, values, to)
