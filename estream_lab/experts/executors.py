"""Executors: what evaluates the shared graph within this process, and how much memory its temporaries take."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from estream_lab.errors import EStreamError
from estream_lab.experts.graph import ExpertKernel, HostKernel
from estream_lab.experts.shape import RecordClass
from estream_lab.kernels.layout import Q4
from estream_lab.kernels.profiles import DEFAULT_PROFILE, DEFAULT_VTCM_BYTES, profile

if TYPE_CHECKING:
    from estream_lab.experts.order_steps import StepRecorder
    from estream_lab.trace import Provenance

EXECUTORS = ("host", "exact")


def _nothing_more(record: RecordClass, route_capacity: int) -> "Provenance":
    return {}


@dataclass(frozen=True)
class Executor:
    """One way to evaluate experts in this process.

    Attributes:
        name: the lane's name in traces and results.
        numerics_profile: what its arithmetic is.
        kernel: makes the kernel of a record class for at most C records a call.
        bytes_for: bytes of that kernel's temporaries with so many threads.
        layout: the layout of records on which its kernel is tried when an engine opens.
        stepped: makes a kernel that tells its steps, where the executor has any and they are wanted.
        most_steps: at most how many those are, of a record class and C, for so many slots and records.
        provenance: what traces say of how it runs a record class with C, beside its name and profile.
    """

    name: str
    numerics_profile: str
    kernel: Callable[[RecordClass, int], ExpertKernel] = field(compare=False)
    bytes_for: Callable[[RecordClass, int, int], int] = field(compare=False)
    layout: str = Q4
    stepped: Callable[[RecordClass, int, "StepRecorder"], ExpertKernel] | None = field(default=None, compare=False)
    most_steps: Callable[[RecordClass, int, int, int], int] | None = field(default=None, compare=False)
    provenance: Callable[[RecordClass, int], "Provenance"] = field(default=_nothing_more, compare=False)


HOST = Executor("host", HostKernel.numerics_profile, HostKernel, HostKernel.bytes_for, "f32")
"""The host's fp32 kernels."""

HOST_PROFILES = (HOST.numerics_profile, "host-bf16", "host-int8")
"""What the host's arithmetic can be: activations in fp32, rounded to bf16, or quantised to int8 in blocks of 32."""


def host_bf16() -> Executor:
    """The host's kernels for activations in bf16."""
    from estream_lab.experts.bf16 import Bf16Kernel  # who computes in fp32 doesn't load it

    return Executor("host", Bf16Kernel.numerics_profile, Bf16Kernel, Bf16Kernel.bytes_for)


def host_int8() -> Executor:
    """The host's kernels for activations in int8."""
    from estream_lab.experts.int8 import Int8Kernel  # who computes in fp32 doesn't load it

    return Executor("host", Int8Kernel.numerics_profile, Int8Kernel, Int8Kernel.bytes_for)


def host_profile(layout: str) -> str:
    """The fastest of the host's profiles that reads records of this layout."""
    return "host-int8" if layout == Q4 else HOST.numerics_profile


def exact(
    profile_name: str = DEFAULT_PROFILE, vtcm_bytes: int = DEFAULT_VTCM_BYTES, *, steps: bool = False
) -> Executor:
    """The device's arithmetic, tile by tile.

    Args:
        profile_name: a numerics profile (`kernels.exact.PROFILES`).
        vtcm_bytes: capacity of on-chip memory.
        steps: record the steps of every invocation.

    Raises:
        EStreamError: no such profile.
    """
    from estream_lab.experts.exact import ExactKernel  # who runs on the host doesn't load it

    return Executor(
        "exact",
        profile(profile_name).name,
        partial(ExactKernel, profile_name=profile_name, vtcm_bytes=vtcm_bytes),
        partial(ExactKernel.bytes_for, profile_name=profile_name, vtcm_bytes=vtcm_bytes),
        stepped=partial(ExactKernel, profile_name=profile_name, vtcm_bytes=vtcm_bytes) if steps else None,
        most_steps=partial(ExactKernel.most_steps, vtcm_bytes=vtcm_bytes) if steps else None,
        provenance=partial(ExactKernel.provenance, vtcm_bytes=vtcm_bytes),
    )


def executor(name: str, profile_name: str | None, vtcm_bytes: int | None, *, steps: bool = False) -> Executor:
    """The executor of this name.

    Raises:
        EStreamError: there is none, or it has no such profile, no capacity or no steps.
    """
    if name not in EXECUTORS:
        raise EStreamError(f"there is no executor '{name}': choose one of {', '.join(EXECUTORS)}")
    if name == "exact":
        capacity = DEFAULT_VTCM_BYTES if vtcm_bytes is None else vtcm_bytes
        return exact(DEFAULT_PROFILE if profile_name is None else profile_name, capacity, steps=steps)
    given = {"VTCM capacity": vtcm_bytes, "record of steps": steps or None}
    for what, value in given.items():
        if value is not None:
            raise EStreamError(f"the {name} executor has no {what}: choose the exact one, or leave that out")
    if profile_name in (None, HOST.numerics_profile):
        return HOST
    made = dict(zip(HOST_PROFILES[1:], (host_bf16, host_int8), strict=True))
    if profile_name not in made:
        raise EStreamError(
            f"the {name} executor has no numerics profile '{profile_name}': choose {', '.join(HOST_PROFILES[:-1])} or "
            f"{HOST_PROFILES[-1]}, or the exact executor"
        )
    return made[profile_name]()
