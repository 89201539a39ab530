"""A Gaussian process with the posterior of its hyperparameters and its predictions, updated with every measurement.

Equation: Li et al. 2022, Eq. (29), Eq. (30)
Equation: derived, predictions of the pool by one more row
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.hamiltonian import HMCSettings, sample_hmc
from gpsuite.models.sampling.posterior import HyperPosterior, OptimumSettings, find_optimum
from gpsuite.models.sampling.sequential_monte_carlo import NewObservations, SMCSettings, SMCState, start, update

Kind = Literal["smc", "hmc", "map", "ml"]


@dataclass(frozen=True)
class InferenceSettings:
    """Settings of the inference of hyperparameters.

    Attributes:
        kind: `smc` updates the posterior with each measurement. `hmc` (the paper's), `map` and `ml` (maximum
            likelihood) start again each time.
        optimum: settings of `map` and `ml`. Their kind is replaced by `kind`.
        pool_members: number of hyperparameter vectors that predict, equally spaced in their order. Memory grows with
            their number times the number of inputs. Default: all.

    Raises:
        ValueError: if the kind is unknown or there are no members.
    """

    kind: Kind = "smc"
    smc: SMCSettings = field(default_factory=SMCSettings)
    hmc: HMCSettings = field(default_factory=HMCSettings)
    optimum: OptimumSettings = field(default_factory=OptimumSettings)
    pool_members: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("smc", "hmc", "map", "ml"):
            raise ValueError(f"kind={self.kind}: must be smc, hmc, map or ml")
        if self.pool_members is not None and self.pool_members < 1:
            raise ValueError(f"pool_members={self.pool_members}: must be at least 1")


class Learner:
    """A model with P outputs, the posterior of its hyperparameters, and predictions at fixed inputs.

    `start` or `add` infers. Then `predict` updates the predictions.

    Attributes:
        posterior: posterior of the hyperparameters.
    """

    posterior: HyperPosterior

    def __init__(
        self,
        model: MultiOutputModel,
        observations: Observations,
        X: FloatArray,
        settings: InferenceSettings,
        *,
        capacity: int,
        covariances: bool = False,
    ) -> None:
        self.model = model
        self.observations = observations
        self._likelihood = model.likelihood(observations)
        self._X, self._settings = X, settings
        self._capacity, self._covariances = capacity, covariances
        self._cloud: SMCState | None = None
        self._predictions: PoolPredictions | None = None
        self._counts: list[int] = []  # number of measurements at the last new prediction, then after each extension

    def start(self, rng: np.random.Generator) -> None:
        if self._settings.kind == "smc":
            self._cloud = start(self.model, self._likelihood, rng, self._settings.smc)
            self.posterior = self._cloud.posterior
        else:
            self.posterior = self._inferred_again(rng, None)

    def add(self, X: FloatArray, p: IntArray, y: FloatArray, rng: np.random.Generator) -> None:
        """Learn from measurements y [m] of outputs p [m] at inputs X [m, D] that were made together."""
        self.observations = self.observations.extended(X, p, y)
        previous, self._likelihood = self._likelihood, self.model.likelihood(self.observations)
        if self._cloud is None:
            self.posterior = self._inferred_again(rng, self.posterior.u)
            self._counts = []
            return
        log_predictive = self._extend(self._cloud, X, p, y)
        new = NewObservations(previous, self._likelihood, log_predictive)
        self._cloud = update(self._cloud, self.model, new, rng, self._settings.smc)
        self.posterior = self._cloud.posterior
        if self._cloud.moved:
            self._counts = []

    def predict(self) -> None:
        """Recompute the predictions if the hyperparameters changed. Otherwise they are up to date."""
        if self._counts:
            return
        self._counts = [len(self.observations)]
        u = self.posterior.u[self._members]
        if self._predictions is not None:
            self._predictions.recompute(u, self.observations)
            return
        self._predictions = PoolPredictions(
            self.model,
            u,
            self.observations,
            self._X,
            capacity=self._capacity if self._settings.kind == "smc" else None,
            covariances=self._covariances,
        )

    @property
    def predictions(self) -> PoolPredictions:
        """Predictions of every predicting hyperparameter vector. ValueError before the first `predict`."""
        if self._predictions is None or not self._counts:
            raise ValueError("predict first")
        return self._predictions

    @property
    def weights(self) -> FloatArray:
        chosen = self.posterior.weights[self._members]
        return np.asarray(chosen / chosen.sum())

    @property
    def noise(self) -> FloatArray:
        """Noise variances of the hyperparameter vectors that predict, [M, P]."""
        return self.model.noise(self.posterior.u[self._members])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything that `restore` needs. Predictions are computed again there."""
        own = {
            "X": self.observations.X,
            "p": self.observations.p,
            "y": self.observations.y,
            "counts": np.array(self._counts, dtype=np.int64),
        }
        if self._cloud is not None:
            return {**own, **self._cloud.to_arrays()}
        return {**own, "u": self.posterior.u, "weights": self.posterior.weights}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue where `arrays` was called on a learner of the same model, inputs and settings.

        The predictions repeat the same steps, so they agree in every bit.
        """
        X, p, y = arrays["X"], arrays["p"], arrays["y"]
        if self._settings.kind == "smc":
            self._cloud = SMCState.from_arrays(arrays)
            self.posterior = self._cloud.posterior
        else:
            self.posterior = HyperPosterior(arrays["u"], arrays["weights"])
        counts = [int(count) for count in arrays["counts"]]
        if counts:
            first = counts[0]
            self.observations, self._counts = Observations(X[:first], p[:first], y[:first]), []
            self.predict()
            for begin, end in pairwise(counts):
                self.predictions.extend(X[begin:end], p[begin:end], y[begin:end])
        self.observations, self._counts = Observations(X, p, y), counts
        self._likelihood = self.model.likelihood(self.observations)

    @property
    def _members(self) -> IntArray:
        total = len(self.posterior)
        wanted = min(self._settings.pool_members or total, total)
        # spread over all: neighbours in a chain are similar
        return np.arange(wanted) * total // wanted

    def _extend(self, cloud: SMCState, X: FloatArray, p: IntArray, y: FloatArray) -> FloatArray:
        """Extend the predictions by new measurements. Return their earlier log density at every particle."""
        try:
            log_predictive = self.predictions.extend(X, p, y)
            self._counts.append(len(self.observations))
        except np.linalg.LinAlgError:  # if rounding left no predictive variance, no row can be added
            self._counts = []
            log_predictive = np.empty(0)
        if len(log_predictive) == len(cloud.u):
            return log_predictive
        with np.errstate(invalid="ignore"):  # a particle without weight may have -inf before and after
            return self._likelihood.value(cloud.u) - cloud.lml

    def _inferred_again(self, rng: np.random.Generator, previous: FloatArray | None) -> HyperPosterior:
        settings = self._settings
        if settings.kind == "hmc":
            return sample_hmc(self.model, self._likelihood, rng, settings.hmc)
        optimum = replace(settings.optimum, kind="ml" if settings.kind == "ml" else "map")
        return find_optimum(self.model, self._likelihood, rng, optimum, previous)
