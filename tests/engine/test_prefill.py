"""The engine end to end on a small store: the same bits whatever the settings, and clear refusals."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estream_lab.engine import PrefillEngine, log_softmax
from estream_lab.errors import EStreamError
from estream_lab.experts.int8 import Int8Kernel
from estream_lab.models.layers import Decoder
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.routing import Router
from estream_lab.streaming import Store, StreamingLane
from estream_lab.streaming.pack import pack_synthetic
from estream_lab.streaming.pipeline import Pipeline
from tests.stores import SPEC, synthetic_store

TOKENS = np.random.default_rng(7).integers(0, SPEC.vocab, 33)


def logits(store: Path, **options: Any) -> bytes:
    with PrefillEngine.open(store, poison=True, **options) as engine:
        return engine.prefill(TOKENS, positions="all").output.tobytes()


@pytest.fixture(scope="module")
def resident(store_path: Path) -> bytes:
    return logits(store_path, resident=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(
    schedule=st.sampled_from(["on-demand", "after-routing", "early"]), group=st.integers(1, 10),
    banks=st.integers(1, 4), queue=st.integers(1, 4), threads=st.integers(1, 2), capacity=st.integers(1, 80),
    chunk=st.integers(1, 40),
)  # fmt: skip
def test_logits_are_bit_identical_over_schedules_arenas_threads_and_chunks(
    store_path: Path, resident: bytes, schedule: str, group: int, banks: int, queue: int, threads: int, capacity: int,
    chunk: int,
) -> None:  # fmt: skip
    found = logits(
        store_path, schedule=schedule, group_size=group, banks=banks, queue_depth=queue, threads=threads,
        route_capacity=capacity, chunk_tokens=chunk,
    )  # fmt: skip
    assert found == resident


def reference(tokens: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The model in float64 NumPy from the source's own weights: logits (T, V) and chosen experts (T, k) by layer."""
    source, spec = SyntheticSource(SPEC, 0), SPEC

    def norm(x: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + spec.rms_eps)  # the norms' weights are one

    def weight(name: str) -> np.ndarray:
        return source.dense(name).astype(np.float64)

    x = weight("embed.weight")[tokens]
    angle = np.arange(len(tokens))[:, None] * spec.rope_theta ** (-np.arange(0, spec.head_dim, 2) / spec.head_dim)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

    def rotate(h: np.ndarray) -> np.ndarray:
        a, b = np.split(h, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    chosen = []
    for layer in range(spec.layers):
        at = f"layers.{layer}."
        h = norm(x)
        q, k, v = (h @ weight(f"{at}{n}_proj.weight").T for n in "qkv")
        shape = (len(tokens), spec.heads, spec.head_dim)
        q, k, v = rotate(norm(q).reshape(shape)), rotate(norm(k).reshape(shape)), v.reshape(shape)
        score = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(spec.head_dim)
        score[:, np.triu(np.ones((len(tokens),) * 2, bool), 1)] = -np.inf
        share = np.exp(score - score.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", share, v).reshape(len(tokens), -1) @ weight(at + "o_proj.weight").T
        h = norm(x)
        router = np.exp(h @ weight(at + "router.weight").T)
        alpha = router / router.sum(-1, keepdims=True)
        ids = np.argsort(-alpha, axis=-1)[:, :2]
        chosen.append(ids)
        y = np.zeros_like(x)
        for t, row in enumerate(ids):
            for e in row:
                gate, up, down = (w.astype(np.float64) for w in source.expert(layer, int(e)))
                g = gate @ h[t]
                y[t] += alpha[t, e] * (down @ (g / (1 + np.exp(-g)) * (up @ h[t])))
        x = x + y
    return norm(x) @ weight("head.weight").T, chosen


def test_f32_experts_agree_with_float64_mathematics(tmp_path: Path) -> None:
    expected, chosen = reference(TOKENS)
    with PrefillEngine.open(synthetic_store(tmp_path, "f32")) as engine:
        result = engine.prefill(TOKENS, positions="all")
    assert np.abs(result.output - expected).max() < 2e-5 and expected.std() > 0.5
    for layer, routes in result.routes.items():
        assert len(routes) == len(TOKENS) * 2
        assert np.array_equal(routes.expert.reshape(-1, 2), chosen[layer])


def test_a_longer_prompt_after_a_shorter_one(store_path: Path, resident: bytes) -> None:
    with PrefillEngine.open(store_path) as engine:
        short = engine.prefill(TOKENS[:5], positions="all").output
        whole = engine.prefill(TOKENS, positions="all").output
        again = engine.prefill(TOKENS[:5], positions="all").output
    assert whole.tobytes() == resident
    assert short.tobytes() == again.tobytes() == whole[:5].tobytes()  # causal, and no trace of the request before


def test_wants_and_positions(store_path: Path) -> None:
    with PrefillEngine.open(store_path) as engine:
        everything = engine.prefill(TOKENS, positions="all").output
        some = engine.prefill(TOKENS, positions=[32, 0, 4])
        logprobs = engine.prefill(TOKENS, want="logprobs")
        hidden = engine.prefill(TOKENS, want="hidden")
    assert some.output.tobytes() == everything[[32, 0, 4]].tobytes()
    assert np.array_equal(logprobs.output, log_softmax(everything[-1:]))
    assert np.exp(logprobs.output).sum() == pytest.approx(1)
    assert hidden.output.shape == (1, SPEC.hidden)
    best = int(np.argmax(everything[-1]))
    assert [row[0] for row in some.top] == np.argsort(-everything[4], kind="stable")[:5].tolist()  # the last one asked
    assert logprobs.top[0][0] == hidden.top[0][0] == best and len(logprobs.top) == 5


def test_figures_add_up(store_path: Path) -> None:
    with PrefillEngine.open(store_path, group_size=3, banks=2, queue_depth=2) as engine:
        result = engine.prefill(TOKENS)
    stride = Store(store_path).stride
    assert result.arena_bytes == 2 * 3 * stride and result.graph_builds == 1
    assert result.bytes_read == result.bytes_needed + result.bytes_speculative
    assert result.bytes_read == sum(span.bytes or 0 for span in result.trace.select("storage"))
    assert result.active_experts == sum(len(np.unique(r.expert)) for r in result.routes.values()) <= 30
    assert round(result.seconds * 1e9) == result.trace.request_ns
    assert 0 <= result.storage_idle <= 1 and 0 <= result.npu_idle <= 1
    assert (result.schedule, result.banks, result.queue_depth, result.group_size) == ("early", 2, 2, 3)


JSON_KEYS = {
    "tokens", "seconds", "tokens_per_second", "peak_rss_bytes", "arena_bytes", "bytes_read", "bytes_needed",
    "bytes_speculative", "storage_idle", "npu_idle", "lane", "layout", "profile", "schedule", "group_size",
    "queue_depth", "banks", "logits_sha256", "top", "non_expert", "kind",
}  # fmt: skip


def test_json_holds_the_keys_that_other_programs_rely_on(store_path: Path) -> None:
    with PrefillEngine.open(store_path) as engine:
        plain = json.loads(json.dumps(engine.prefill(TOKENS).to_json()))
    assert set(plain) >= JSON_KEYS
    assert plain["lane"] == "host" and plain["profile"] == "host-int8" and plain["layout"] == "q4-32x32"
    assert [len(row) for row in plain["top"]] == [3] * 5


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "the prompt is empty"),
        ([1, 96], "token 96 at position 1 is outside the vocabulary of 96"),
        ([-1], "token -1 at position 0"),
        ([1.5], "whole numbers"),
        ([[1, 2]], r"one row, not an array of shape \(1, 2\)"),
        ([1] * 129, "has 129 tokens and the model's context is 128"),
    ],
)
def test_bad_prompts_are_refused(store_path: Path, tokens: list[Any], message: str) -> None:
    with PrefillEngine.open(store_path) as engine, pytest.raises(EStreamError, match=message):
        engine.prefill(np.array(tokens))


@pytest.mark.parametrize("positions", [[], [33], [-1], [0.5], [[1]]])
def test_bad_positions_are_refused(store_path: Path, positions: list[int]) -> None:
    with PrefillEngine.open(store_path) as engine, pytest.raises(EStreamError, match="indices from 0 to 32"):
        engine.prefill(TOKENS, positions=positions)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_size": 0}, "a group of 0 experts"),
        ({"group_size": 11}, "a group of 11 experts is not between 1 and the layer's 10"),
        ({"banks": 0}, "banks must be at least 1"),
        ({"queue_depth": 0}, "queue depth must be at least 1"),
        ({"arena_bytes": 2 * 4096, "group_size": 3}, "smaller than one group: 3 experts need"),
        ({"arena_bytes": 1 << 20, "banks": 2}, "not both"),
        ({"schedule": "eager", "resident": True}, "unknown schedule 'eager'"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"read_bandwidth": 0.0}, "must be positive"),
    ],
)
def test_settings_that_cannot_run_are_refused(store_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EStreamError, match=message), PrefillEngine.open(store_path, **options) as engine:
        engine.prefill(TOKENS)


def test_more_banks_than_groups_and_more_places_than_banks_never_help(store_path: Path) -> None:
    with PrefillEngine.open(store_path, group_size=4, banks=99, queue_depth=50) as engine:
        most = engine.prefill(TOKENS)
    with PrefillEngine.open(store_path, group_size=4, banks=2, queue_depth=50) as engine:
        fewer = engine.prefill(TOKENS)
    assert (most.banks, most.queue_depth) == (3, 3)  # ceil(10 / 4) groups
    assert (fewer.banks, fewer.queue_depth) == (2, 2)


def test_an_arena_size_becomes_banks(store_path: Path) -> None:
    stride = Store(store_path).stride
    with PrefillEngine.open(store_path, group_size=2, arena_bytes=7 * stride) as engine:
        assert engine.prefill(TOKENS).arena_bytes == 6 * stride


@pytest.mark.parametrize(
    ("owner", "step"),
    [(Decoder, "attend"), (Router, "choose"), (StreamingLane, "begin"), (StreamingLane, "run"),
     (Pipeline, "begin"), (Pipeline, "next_ready"), (Pipeline, "run_done"), (Int8Kernel, "__call__")],
)  # fmt: skip
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_in_mid_run_leaves_an_engine_that_works(
    store_path: Path,
    resident: bytes,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    step: str,
    error: type[BaseException],
) -> None:
    calls, real = 0, getattr(owner, step)

    def stop(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise error
        return real(*arguments)

    with PrefillEngine.open(store_path, group_size=3, banks=2, poison=True) as engine:
        monkeypatch.setattr(owner, step, stop)
        with pytest.raises(error):
            engine.prefill(TOKENS)
        monkeypatch.undo()
        assert engine.prefill(TOKENS, positions="all").output.tobytes() == resident


def test_a_second_request_on_a_busy_engine_is_refused(
    store_path: Path, resident: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = Router.choose, []

    def meddled(*arguments: Any) -> Any:
        with pytest.raises(EStreamError) as caught:
            engine.prefill(TOKENS[:3])
        refused.append(str(caught.value))
        return real(*arguments)

    with PrefillEngine.open(store_path) as engine:
        monkeypatch.setattr(Router, "choose", meddled)
        assert engine.prefill(TOKENS, positions="all").output.tobytes() == resident
    assert len(refused) == SPEC.layers and all("open one engine a thread" in message for message in refused)


def test_two_engines_in_two_threads_on_one_store(store_path: Path, resident: bytes) -> None:
    def work(threads: int) -> set[bytes]:
        with PrefillEngine.open(store_path, group_size=2, banks=2, threads=threads, poison=True) as engine:
            return {engine.prefill(TOKENS, positions="all").output.tobytes() for _ in range(5)}

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, [1, 1])) == [{resident}] * 2


def test_a_closed_engine_holds_no_file(store_path: Path) -> None:
    def use() -> None:
        with PrefillEngine.open(store_path) as engine:
            engine.prefill(TOKENS[:2])

    use()
    before = len(os.listdir("/dev/fd"))
    use()
    assert len(os.listdir("/dev/fd")) == before


def test_an_unknown_output_is_refused(store_path: Path) -> None:
    with PrefillEngine.open(store_path) as engine:
        with pytest.raises(EStreamError, match="gives logits, logprobs, hidden, not 'probs'"):
            engine.prefill(TOKENS, want="probs")  # type: ignore[arg-type]
        with pytest.raises(EStreamError, match="positions must be last, all, or"):
            engine.prefill(TOKENS, positions="first")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize(
    ("huge", "where"),
    [
        ("layers.1.router.weight", "the router of layer 1"),
        ("head.weight", "the head"),
        ("norm.weight", "the final norm"),
    ],
)
def test_weights_that_overflow_are_one_sentence(tmp_path: Path, huge: str, where: str) -> None:
    class Huge(SyntheticSource):
        def dense(self, name: str) -> np.ndarray:
            weights = super().dense(name)
            return np.full_like(weights, 3e38) if name == huge else weights

    pack_synthetic(Huge(SPEC), tmp_path / "h.estream", progress=False)
    with PrefillEngine.open(tmp_path / "h.estream") as engine, pytest.raises(EStreamError, match=f"{where} gives NaN"):
        engine.prefill(TOKENS)
