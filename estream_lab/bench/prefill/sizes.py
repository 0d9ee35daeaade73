"""What a comparison of whole prefills holds in memory and on disk, known before the model is made."""

from estream_lab.bench.prefill.forms import QUANTS
from estream_lab.bench.prefill.rows import PROFILES
from estream_lab.bench.prefill.sweeping import FINALISTS
from estream_lab.errors import EStreamError
from estream_lab.machine import available_memory_bytes
from estream_lab.models.dense import dense_memory, quantisable
from estream_lab.models.spec import ModelSpec
from estream_lab.streaming.dense import DENSE_QUANTS, KEEP


def experts_bytes(spec: ModelSpec) -> int:
    """Of all experts in Q4_0."""
    return spec.layers * spec.experts * 3 * spec.hidden * spec.ffn * 18 // 32


def dense_bytes(spec: ModelSpec, dense_quant: str = KEEP) -> int:
    """Of everything else, in float32 but for the matrices that are quantised."""
    layout = DENSE_QUANTS.get(dense_quant)
    return dense_memory(spec, {name: layout for name in quantisable(spec)} if layout else {})[0]


def peak_bytes(spec: ModelSpec, *, peer: bool, dense_quant: str = KEEP) -> int:
    """Memory of all rows, which hold their weights at once, because they take turns: ours the dense ones, the resident
    ones the experts too; llama.cpp's a file, which is mapped, and what it repacks of it.
    """
    experts = experts_bytes(spec)
    ours = 2 * len(PROFILES) * dense_bytes(spec, dense_quant) + len(PROFILES) * experts
    return ours + (2 * (1 + FINALISTS) * experts + dense_bytes(spec) + 2 * experts if peer else 0)


def file_bytes(spec: ModelSpec, *, peer: bool, dense_quant: str = KEEP) -> int:
    """Files: the store; for llama.cpp its experts once more while they are handed over, a file with float32 dense
    weights, and one of each quantisation, of which none takes more than 5.5 bits a weight, its head 6.6.
    """
    experts, dense = experts_bytes(spec), dense_bytes(spec)
    store = experts + dense_bytes(spec, dense_quant)
    quantised = int(experts * 5.5 / 4.5 + dense * 6.6 / 32)
    return store + (2 * experts + dense + len(QUANTS) * quantised if peer else 0)


def check_memory(spec: ModelSpec, *, peer: bool, dense_quant: str = KEEP) -> int:
    """`peak_bytes`.

    Raises:
        EStreamError: it is more than there is.
    """
    needed, available = peak_bytes(spec, peer=peer, dense_quant=dense_quant), available_memory_bytes()
    if needed > available:
        raise EStreamError(
            f"rows of this model need {needed / 2**30:.1f} GiB of memory at their peak, and "
            f"{available / 2**30:.1f} GiB are free: choose fewer --layers or --experts"
        )
    return needed
