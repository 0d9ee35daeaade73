"""What every contestant is given: one request's routes, one device, one memory budget."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes
from estream_lab.simulate.device import Device
from estream_lab.simulate.models import ModelShape
from estream_lab.simulate.workload import Workload, drawn_routes

PROMPTS = 16
"""Requests that contestants calibrate on, where none are given."""

NORM_SPREAD = 0.5
"""Standard deviation of log ‖x‖ of made-up norms."""


@dataclass(frozen=True, eq=False)
class Contest:
    """A request that all contestants run.

    Attributes:
        device: its profile. budget_bytes: M_max, inclusive; resident memory of the whole request.
        workload: the model, T, and the loads of these very routes.
        routes: of each sparse layer, in order.
        norms: (layers, T) float64, ‖x‖ of each token where it enters a layer's experts; for those who drop routes.
        calibration: (N, layers, E) int64, loads of N other requests; for those who decide things offline.

    Raises:
        EStreamError: parts that don't fit together, norms that are no norms, nothing to calibrate on, or no budget.
    """

    device: Device
    budget_bytes: int
    workload: Workload
    routes: tuple[Routes, ...]
    norms: NDArray[np.float64]
    calibration: NDArray[np.int64]

    def __post_init__(self) -> None:
        model = self.workload.model
        if self.budget_bytes < 1:
            raise EStreamError(f"a memory budget of {self.budget_bytes} bytes holds nothing: give at least 1")
        loads = [of_layer.counts(model.experts) for of_layer in self.routes]
        if not np.array_equal(np.array(loads).reshape(-1, model.experts), self.workload.loads):
            raise EStreamError("a contest's routes and its workload disagree: give the workload of these routes")
        if self.norms.shape != (model.layers, self.workload.tokens) or not (self.norms >= 0).all():
            raise EStreamError(
                f"norms of shape {self.norms.shape} don't fit {model.layers} layers of {self.workload.tokens} tokens: "
                "give one of 0 or more for each token in each layer"
            )
        if self.calibration.shape[1:] != self.workload.loads.shape or not len(self.calibration):
            raise EStreamError(
                f"calibration loads of shape {self.calibration.shape} don't fit {model.layers} layers of "
                f"{model.experts} experts: give (requests, layers, experts) of at least one request"
            )

    @property
    def routed(self) -> int:
        """R, of all layers."""
        return int(self.workload.loads.sum())

    @property
    def needed_bytes(self) -> int:
        """Of the experts with routes, all layers: the least that a request reads which holds none of them."""
        return int(np.count_nonzero(self.workload.loads)) * self.workload.model.expert_bytes

    @property
    def store_bytes(self) -> int:
        """Of all routed experts."""
        return self.workload.loads.size * self.workload.model.expert_bytes

    def calibrated(self, routes: Mapping[int, Routes], seed: int = 0) -> "Contest":
        """The same request, for contestants that calibrated on requests like ``routes`` (`resampled`), by layer.

        Raises:
            EStreamError: routes of other layers than the model's.
        """
        ordered = tuple(routes[layer] for layer in sorted(routes))
        tokens = max(int(of_layer.token[-1]) for of_layer in ordered if len(of_layer)) + 1
        return replace(self, calibration=resampled(ordered, tokens, self.workload.model.experts, seed=seed))

    @classmethod
    def of_routes(
        cls,
        device: Device,
        model: ModelShape,
        routes: Mapping[int, Routes],
        budget_bytes: int,
        origin: str,
        seed: int = 0,
    ) -> "Contest":
        """Given routes, by layer; norms are made up, and the requests to calibrate on are `resampled`.

        Raises:
            EStreamError: as the class and `Workload.of_routes`, or a seed below 0.
        """
        if seed < 0:
            raise EStreamError(f"a seed of {seed} is none: give 0 or more")
        workload = Workload.of_routes(model, routes, origin)
        ordered = tuple(routes[layer] for layer in sorted(routes))
        calibration = resampled(ordered, workload.tokens, model.experts, seed=seed)
        norms = synthetic_norms(model.layers, workload.tokens, seed)
        return cls(device, budget_bytes, workload, ordered, norms, calibration)

    @classmethod
    def synthetic(
        cls,
        device: Device,
        model: ModelShape,
        tokens: int,
        budget_bytes: int,
        *,
        alpha: float | None = None,
        seed: int = 0,
    ) -> "Contest":
        """Routes drawn at random, those that `Workload.synthetic` counts; the rest as `of_routes`.

        Raises:
            EStreamError: as `of_routes` and `drawn_routes`.
        """
        routes, origin = drawn_routes(model, tokens, alpha=alpha, seed=seed)
        return cls.of_routes(device, model, routes, budget_bytes, origin, seed)


def resampled(
    routes: tuple[Routes, ...], tokens: int, experts: int, *, prompts: int = PROMPTS, seed: int = 0
) -> NDArray[np.int64]:
    """Loads of other requests, whose tokens are drawn from this one's with replacement: (prompts, layers, E) int64.

    They are as like this request as any could be, so whoever calibrates on them does better than with real ones.
    """
    rng = np.random.default_rng([seed, 1])
    times = rng.multinomial(tokens, np.full(tokens, 1 / tokens), size=prompts)  # (N, T): how often each token comes
    visits = np.zeros((len(routes), tokens, experts))  # float64: exact in BLAS up to 2^53
    for layer, of_layer in enumerate(routes):
        np.add.at(visits[layer], (of_layer.token, of_layer.expert), 1)
    return np.stack([times @ of_layer for of_layer in visits], axis=1).astype(np.int64)


def synthetic_norms(layers: int, tokens: int, seed: int) -> NDArray[np.float64]:
    """Made-up norms of tokens, log-normal: (layers, T) float64."""
    return np.random.default_rng([seed, 2]).lognormal(0.0, NORM_SPREAD, (layers, tokens))
