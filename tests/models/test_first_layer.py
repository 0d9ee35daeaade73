"""The first layer alone, against the engine's own routes and a decoder driven by hand."""

from pathlib import Path

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.models import Decoder
from estream_lab.models.first_layer import FirstLayer
from estream_lab.routing import route
from estream_lab.streaming import Store
from tests.stores import SPEC, dense_store, synthetic_store

TOKENS = np.random.default_rng(3).integers(0, SPEC.vocab, 40).astype(np.int32)


@pytest.mark.parametrize("kind", ["f32", "bf16", "q8_0"])
def test_its_logits_give_the_engines_routes_and_its_rows_are_the_experts_input(tmp_path: Path, kind: str) -> None:
    store = Store(dense_store(tmp_path, kind))
    with store.dense.opened() as read:
        first = FirstLayer.of(store.spec, read, TOKENS)
        decoder = Decoder(store.spec, read)
    with PrefillEngine.open(store) as engine:
        assert route(first.logits, SPEC.router) == engine.prefill(TOKENS).routes[0]
    work = decoder.new_workspace(len(TOKENS))
    decoder.embed(TOKENS, work.x)
    decoder.attend(0, decoder.new_cache(len(TOKENS)), 0, work)
    assert np.array_equal(first.normed, work.normed)
    assert first.normed.std() > 0.1


def test_ids_outside_the_vocabulary_are_refused(tmp_path: Path) -> None:
    with Store(synthetic_store(tmp_path)).dense_reader() as read, pytest.raises(EStreamError, match="vocabulary"):
        FirstLayer.of(SPEC, read, np.array([SPEC.vocab]))
