"""Stores in other orders: the same logits under every schedule, arena and thread count, and near those by id.

Experts are summed in visit order, so that another order sums in another order. Where a token goes to two experts, as in
the models of the goldens, a sum has one order only: there every order gives the bits of the order by id.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.experts.order import ExpertOrder
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.routing import Routes, synthetic_routes
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack, pack_synthetic
from tests.engine.test_goldens import BOUNDS
from tests.golden_compare import CHECKPOINTS, Golden

SPEC = synthetic_spec(hidden=64, ffn=32, layers=3, experts=12, top_k=5, heads=2, vocab=96, context=128)
NAMES = ("popularity", "co-activation", "reversed")


def expert_order(name: str, routes: dict[int, Routes], experts: int, top_k: int) -> ExpertOrder:
    order = name if name != "reversed" else lambda _, experts: np.arange(experts, dtype=np.int32)[::-1]
    return ExpertOrder.of(order, routes, len(routes), experts, top_k, "routes")


@pytest.fixture(scope="module", params=["q4_0", "f32"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    """SPEC's model in every order, five routes a token."""
    folder = tmp_path_factory.mktemp("orders")
    routes = {layer: synthetic_routes(60, 12, 5, alpha=1.0, seed=layer) for layer in range(SPEC.layers)}
    orders = {name: expert_order(name, routes, 12, 5) for name in NAMES} | {"id": None}
    source, quant = SyntheticSource(SPEC), request.param
    return {
        name: Store(pack_synthetic(source, folder / f"{name}.estream", quant=quant, order=order, progress=False).path)
        for name, order in orders.items()
    }


def logits(store: Store, **options: Any) -> np.ndarray:
    tokens = [(7 * i + 3) % store.spec.vocab for i in range(65)]
    with PrefillEngine.open(store, poison=True, **options) as engine:
        return engine.prefill(tokens, positions="all").output


@pytest.mark.parametrize("name", NAMES)
def test_schedules_arenas_and_threads_change_no_bit_whatever_the_order(stores: dict[str, Store], name: str) -> None:
    expected = logits(stores[name], resident=True)
    for options in (
        {"schedule": "early"},
        {"schedule": "early", "carry_over": True, "group_size": 3, "banks": 4},
        {"schedule": "after-routing", "group_size": 2, "banks": 2},
        {"schedule": "on-demand", "group_size": 1, "banks": 1},
        {"schedule": "early", "group_size": 5, "banks": 3, "queue_depth": 3, "threads": 1, "chunk_tokens": 13},
    ):
        assert logits(stores[name], **options).tobytes() == expected.tobytes(), options


def test_another_order_is_another_order_of_summation_and_no_more(stores: dict[str, Store]) -> None:
    """Held to the bound by which f32 stores are held to transformers."""
    by_id = logits(stores["id"])
    for name in NAMES:
        error = float(np.abs(logits(stores[name]) - by_id).max())
        sys.stdout.write(f"{name}: at most {error:.2g} from by id, standard deviation {by_id.std():.2f}\n")
        assert 0 < error < BOUNDS["f32"]


@pytest.mark.parametrize("mode", BOUNDS)
@pytest.mark.parametrize("model", CHECKPOINTS)
def test_of_two_routes_a_token_no_order_changes_a_bit(model: str, mode: str, tmp_path: Path) -> None:
    """Hence what `test_goldens` holds by id holds in every order."""
    golden = Golden.load(model, mode)
    ids = max(golden.prompts, key=lambda prompt: len(prompt.tokens)).ids  # (L, T, k), as transformers routes
    assert ids.shape[-1] == 2
    routes = {layer: Routes.from_topk(of, np.ones(of.shape, np.float32)) for layer, of in enumerate(ids)}
    by_id = Store(pack(golden.checkpoint, tmp_path / "id.estream", quant=mode, progress=False).path)
    expected = logits(by_id, group_size=3, banks=2).tobytes()
    for name in NAMES:
        order = expert_order(name, routes, by_id.spec.experts, 2)
        path = pack(golden.checkpoint, tmp_path / f"{name}.estream", quant=mode, order=order, progress=False).path
        assert logits(Store(path), group_size=3, banks=2).tobytes() == expected
