"""What this machine reaches at most: the ceilings that rows are held to."""

from estream_lab.kernels.bf16 import peak as bf16
from estream_lab.kernels.host.peak import fma_peak, read_bandwidth
from estream_lab.kernels.int8 import peak as int8

READ = "read_bytes_per_second"


def peaks(threads: int) -> dict[str, float]:
    """Measured now, with `threads` threads: multiply-accumulates a second with registers alone, by arithmetic, and
    under `READ` the bytes a second that come from memory.
    """
    return {
        "int8": int8.peak(threads),
        "bf16": bf16.peak(threads),
        "fp32": fma_peak(threads),
        READ: read_bandwidth(threads),
    }
