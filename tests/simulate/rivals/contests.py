"""Small contests drawn for the laws, one worked out by hand, and all contestants."""

import numpy as np
from hypothesis import strategies as st

from estream_lab.routing import Routes
from estream_lab.simulate.models import ModelShape
from estream_lab.simulate.rivals import (
    ChunkPadding,
    Contest,
    Contestant,
    Contexts,
    EStream,
    HottestFirst,
    NpuMoe,
    OnDemand,
    Resident,
    WholeLayers,
)
from estream_lab.simulate.soc import Settings
from estream_lab.simulate.workload import Workload
from tests.simulate.devices import MODEL, device, drawn_devices

LARGE = 1 << 40


def given_routes() -> dict[int, Routes]:
    """Loads 2, 0, 4, 1, 1 of five experts and four tokens, in both layers; expert 2's weights fall."""
    ids = [[0, 2], [0, 2], [2, 3], [2, 4]]
    weights = [[0.5, 0.4], [0.5, 0.3], [0.2, 0.5], [0.1, 0.5]]
    return dict.fromkeys(range(MODEL.layers), Routes.from_topk(ids, np.array(weights, np.float32)))


def by_hand(budget: int = LARGE, **values: float) -> Contest:
    """Norms are 1 and the request is its own calibration, so that everything can be worked out."""
    workload = Workload.of_routes(MODEL, given_routes(), "made up")
    norms = np.ones((MODEL.layers, workload.tokens))
    return Contest(device(**values), budget, workload, tuple(given_routes().values()), norms, workload.loads[None])


@st.composite
def contests(draw: st.DrawFn, everywhere: bool = False) -> Contest:
    """A device, a model of up to three layers, and routes; with ``everywhere`` each expert has some."""
    layers, experts = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    top_k, tokens = draw(st.integers(1, min(3, experts))), draw(st.integers(1, 9))
    model = ModelShape(
        "drawn", layers, experts, top_k, 1, 1, draw(st.integers(1, 300)), draw(st.integers(1, 20)),
        draw(st.integers(0, 4)), draw(st.integers(0, 20)), 0, draw(st.integers(0, 9)), draw(st.integers(0, 9)),
    )  # fmt: skip
    made = draw(drawn_devices())
    seed = draw(st.integers(0, 1 << 20))
    routes = {layer: _routes(seed + layer, tokens, experts, top_k, everywhere) for layer in range(layers)}
    budget = draw(st.integers(1, 10_000))
    return Contest.of_routes(made, model, routes, budget, "drawn", seed)


def _routes(seed: int, tokens: int, experts: int, top_k: int, everywhere: bool) -> Routes:
    """Some routes are missing; the last token has one at least, so that all layers agree on T."""
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.permutation(experts)[:top_k] for _ in range(tokens)])
    kept = np.ones(ids.shape, bool) if everywhere else rng.random(ids.shape) < 0.8
    kept[-1, 0] = True
    token, place = np.nonzero(kept)
    expert, weight = ids[token, place], rng.random(len(token))
    if everywhere:  # the last token visits every expert once more
        token = np.concatenate([token, np.full(experts, tokens - 1)])
        expert, weight = np.concatenate([expert, np.arange(experts)]), np.concatenate([weight, rng.random(experts)])
    return Routes(token, expert, weight.astype(np.float32))


@st.composite
def settings_of(draw: st.DrawFn, contest: Contest, schedule: str = "early") -> Settings:
    """A configuration that the contest's model has."""
    experts = contest.workload.model.experts
    size = draw(st.integers(1, experts))
    return Settings(size, draw(st.integers(1, -(-experts // size))), draw(st.integers(1, 3)), schedule)


@st.composite
def streaming(draw: st.DrawFn, contest: Contest) -> Contestant:
    """One that reads during the request."""
    settings = draw(settings_of(contest, draw(st.sampled_from(["early", "after-routing", "on-demand"]))))
    makers = (
        EStream(settings), OnDemand(), WholeLayers(buffers=draw(st.integers(1, 3))),
        Contexts(setup_seconds=draw(st.sampled_from([0.0, 1e-7]))), HottestFirst(settings),
        HottestFirst(settings, unit="group"),
        ChunkPadding(settings, rows=draw(st.integers(1, 5)), per_prompt_chunk=draw(st.booleans())),
    )  # fmt: skip
    return draw(st.sampled_from(makers))


@st.composite
def npumoe(draw: st.DrawFn) -> NpuMoe:
    """With any options."""
    capacities = tuple(sorted(draw(st.sets(st.integers(1, 12), min_size=1, max_size=4))))
    return NpuMoe(
        quantile=draw(st.floats(0, 1)), capacities=capacities, group_size=draw(st.integers(1, 4)),
        theta=draw(st.floats(0, 3)), cpu_slowdown=draw(st.floats(1, 5)), overlap=draw(st.booleans()),
    )  # fmt: skip


@st.composite
def entries(draw: st.DrawFn) -> tuple[Contest, Contestant]:
    """A contest and any contestant in it."""
    contest = draw(contests())
    return contest, draw(st.one_of(streaming(contest), npumoe(), st.just(Resident())))
