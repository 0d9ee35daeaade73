"""That a peer computes the same model: small models of float32 weights, on which nothing rounds but float32 itself."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estream_lab.bench.prefill.forms import Form
from estream_lab.bench.prefill.llama import Files, LlamaRow
from estream_lab.bench.prefill.rows import OurRow, Prompt
from estream_lab.bench.session import Session
from estream_lab.errors import EStreamError
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack_synthetic

SAME = 1e-3
"""Relative error of the logits up to which two float32 models are the same; ones with another rope or norm are off by
more than a tenth."""

_SPEC = synthetic_spec(hidden=256, ffn=128, layers=3, experts=8, top_k=2, heads=4, vocab=320, context=128)
_TOKENS = 100


class _Normed(SyntheticSource):
    """Norms that aren't one, so that no two of them can be taken for each other."""

    def dense(self, name: str) -> NDArray[np.float32]:
        """See `SyntheticSource`."""
        weight = super().dense(name)
        return weight if weight.ndim > 1 else self._draw(f"norm {name}", weight.shape, 8.0) + np.float32(1)


def relative_error(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """L2 norm of the difference in parts of the expected one's."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def agree(session: Session, folder: Path, threads: int) -> float:
    """Run a small model here and there.

    Returns:
        Relative error of the peer's last logits.

    Raises:
        EStreamError: it is so large that these are two models.
    """
    pack_synthetic(_Normed(_SPEC, 1), folder / "small.estream", quant="f32", progress=False)
    store = Store(folder / "small.estream")
    form = Form("f32", repack=False, ubatch=512, flash="off", cache="f32", dense="f32")
    model = Files(session, store, folder, threads).of(form)
    ours, theirs = OurRow(store, "host-f32", resident=True), LlamaRow(session, form, model, folder)
    prompt = Prompt.draw(_TOKENS, _SPEC.vocab, 3, folder / "prompt")
    found = []
    for row in (ours, theirs):
        row.prepare(_TOKENS, threads)
        found.append(row.logits(prompt))
        row.release()
    error = relative_error(found[1], found[0])
    if not error <= SAME:
        raise EStreamError(
            f"{session.name} computes another model (on float32 weights its logits are off by {error:.2g}): nothing "
            "can be compared, so please report it"
        )
    return error
