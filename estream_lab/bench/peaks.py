"""What this machine's registers reach: the ceiling that rows are held to."""

from estream_lab.kernels.int8.peak import peak


def peaks(threads: int) -> dict[str, float]:
    """Multiply-accumulates a second of `threads` threads with registers alone, by arithmetic, measured now."""
    return {"int8": peak(threads)}
