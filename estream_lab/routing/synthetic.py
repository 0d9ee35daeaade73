"""Routes drawn at random with a realistic skew, for work that needs no model."""

import numpy as np

from estream_lab.routing.routes import Routes


def synthetic_routes(tokens: int, experts: int, top_k: int, *, alpha: float, seed: int) -> Routes:
    """Draw routes whose experts are unevenly popular.

    A layer's popularity is p ~ Dirichlet(alpha, ..., alpha): the smaller `alpha`, the more skewed. Each token then
    draws k experts without replacement by Gumbel-top-k: the k largest of log p + Gumbel noise. Values that resemble the
    public models: OLMoE 3 to 4, DeepSeek-V2-Lite 2 to 4, LFM2 4 to 8, Mixtral 10 to 30, Qwen3 0.75 to 4.

    Weights are a softmax over all experts of the perturbed scores, not renormalised: descending within a token, with a
    sum below 1 if k < E. No experiment should lean on their values.

    Args:
        tokens: T. experts: E. top_k: k.
        alpha: concentration of the Dirichlet distribution, above 0.
        seed: of the generator; the same seed gives the same routes.

    Returns:
        T * k routes, a token's experts distinct.
    """
    if tokens < 0 or not 1 <= top_k <= experts:
        raise ValueError(f"cannot draw {top_k} of {experts} experts for {tokens} tokens")
    if not (np.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha must be above 0, not {alpha}")
    rng = np.random.default_rng(seed)
    # A very small alpha underflows some shares to 0: their logarithm would be -inf.
    popularity = np.maximum(rng.dirichlet(np.full(experts, alpha)), np.finfo(np.float64).tiny)
    scores = np.log(popularity) + rng.gumbel(size=(tokens, experts))  # (T, E)
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]  # (T, k)
    e = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    weights = np.take_along_axis(e / e.sum(axis=1, keepdims=True), ids, axis=1)
    return Routes.from_topk(ids.astype(np.int32), weights.astype(np.float32))
