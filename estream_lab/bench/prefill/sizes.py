"""What a comparison of whole prefills holds in memory and on disk, known before the model is made."""

from estream_lab.bench.prefill.forms import QUANTS
from estream_lab.bench.prefill.rows import PROFILES
from estream_lab.bench.prefill.sweeping import FINALISTS
from estream_lab.errors import EStreamError
from estream_lab.machine import available_memory_bytes
from estream_lab.models.spec import ModelSpec


def experts_bytes(spec: ModelSpec) -> int:
    """Of all experts in Q4_0."""
    return spec.layers * spec.experts * 3 * spec.hidden * spec.ffn * 18 // 32


def dense_bytes(spec: ModelSpec) -> int:
    """Of everything else in float32."""
    layer = 4 * spec.hidden * spec.hidden + spec.experts * spec.hidden
    return 4 * (2 * spec.vocab * spec.hidden + spec.layers * layer)


def peak_bytes(spec: ModelSpec, *, peer: bool) -> int:
    """Memory of all rows, which hold their weights at once, because they take turns: ours the dense ones in float32,
    the resident ones the experts too; llama.cpp's a file, which is mapped, and what it repacks of it.
    """
    experts, dense = experts_bytes(spec), dense_bytes(spec)
    ours = 2 * len(PROFILES) * dense + len(PROFILES) * experts
    return ours + (2 * (1 + FINALISTS) * experts + dense + 2 * experts if peer else 0)


def file_bytes(spec: ModelSpec, *, peer: bool) -> int:
    """Files: the store; for llama.cpp its experts once more while they are handed over, a file with float32 dense
    weights, and one of each quantisation, of which none takes more than 5.5 bits a weight, its head 6.6.
    """
    experts, dense = experts_bytes(spec), dense_bytes(spec)
    store = experts + dense
    quantised = int(experts * 5.5 / 4.5 + dense * 6.6 / 32)
    return store + (experts + store + len(QUANTS) * quantised if peer else 0)


def check_memory(spec: ModelSpec, *, peer: bool) -> int:
    """`peak_bytes`.

    Raises:
        EStreamError: it is more than there is.
    """
    needed, available = peak_bytes(spec, peer=peer), available_memory_bytes()
    if needed > available:
        raise EStreamError(
            f"rows of this model need {needed / 2**30:.1f} GiB of memory at their peak, and "
            f"{available / 2**30:.1f} GiB are free: choose fewer --layers or --experts"
        )
    return needed
