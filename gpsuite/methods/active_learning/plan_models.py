"""What a plan knows: the values told so far, and a model with the posterior of its hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.models.config import FloatArray
from gpsuite.models.mixtures import mixture_covariance, mixture_moments
from gpsuite.models.multi_output import ContradictionError, IntArray, MultiOutputModel, Observations
from gpsuite.models.pool_predictions import PoolPredictions
from gpsuite.models.sequential_monte_carlo import SMCSettings, SMCState, start, update

_TOGETHER = 1000
"""Inputs predicted at together: memory does not grow with their number."""


class KnownValues:
    """Values told so far, in the user's units; each is kept once.

    Args:
        width: number D of inputs.
        settled: whether a pair (x, p) has one value for ever.

    Attributes:
        observations: the values, in the order told.
    """

    def __init__(self, width: int, settled: bool) -> None:
        self.width, self._settled = width, settled
        self.observations = Observations(np.empty((0, width)), np.empty(0, dtype=np.int64), np.empty(0))
        self._values: dict[tuple[object, ...], set[float]] = {}

    def add(self, X: FloatArray, Y: FloatArray) -> None:
        """Take in what is new in rows with gaps, all or (on a contradiction) nothing."""
        rows, outputs = np.nonzero(~np.isnan(Y))
        self.take(X[rows], outputs.astype(np.int64), Y[rows, outputs])

    def take(self, X: FloatArray, p: IntArray, y: FloatArray) -> None:
        """Take in what is new among values [m] of outputs [m] at inputs [m, D]."""
        values, new = {pair: set(known) for pair, known in self._values.items()}, []
        for i, value in enumerate(y.tolist()):
            known = values.setdefault((*X[i].tolist(), int(p[i])), set())
            if value not in known:
                if self._settled and known:
                    raise ContradictionError(
                        f"output {p[i]} at {X[i].tolist()} has two values: {min(known):g} and {value:g}"
                    )
                known.add(value)
                new.append(i)
        self.observations = self.observations.extended(X[new], p[new], y[new])
        self._values = values

    def lost(self, X: FloatArray, Y: FloatArray) -> int:
        """Return how many known values are not in these rows."""
        rows, outputs = np.nonzero(~np.isnan(Y))
        given = {(*X[row].tolist(), int(p), float(Y[row, p])) for row, p in zip(rows, outputs, strict=True)}
        return sum((*pair, value) not in given for pair, values in self._values.items() for value in values)


@dataclass(eq=False)
class Belief:
    """A model and the posterior of its hyperparameters, in the models' units.

    Attributes:
        model: of P outputs, or of the safety value.
        observations: what the posterior is conditioned on.
        cloud: particles of the posterior.
    """

    model: MultiOutputModel
    observations: Observations
    cloud: SMCState

    @classmethod
    def cold(
        cls, model: MultiOutputModel, observations: Observations, rng: np.random.Generator, smc: SMCSettings
    ) -> Belief:
        """Infer from the observations alone."""
        return cls(model, observations, start(model, model.likelihood(observations), rng, smc))

    @property
    def learnt(self) -> int:
        """Number of values the posterior knows."""
        return len(self.observations)

    def learn(self, observations: Observations, rng: np.random.Generator, smc: SMCSettings) -> None:
        """Take in observations that begin with those known."""
        if len(observations) == self.learnt:
            return
        before, after = self.model.likelihood(self.observations), self.model.likelihood(observations)
        with np.errstate(invalid="ignore"):  # a particle without weight may have -inf before and after
            gain = after.value(self.cloud.u) - self.cloud.lml
        self.cloud = update(self.cloud, self.model, before, after, gain, rng, smc)
        self.observations = observations

    def moments(
        self, X: FloatArray, observations: Observations | None = None, covariances: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return mixture mean [n, P] and variance [n, P], or covariance [n, P, P], at inputs [n, D]."""
        known, posterior = observations or self.observations, self.cloud.posterior
        parts = []
        for begin in range(0, len(X), _TOGETHER):
            found = PoolPredictions(
                self.model, posterior.u, known, X[begin : begin + _TOGETHER], covariances=covariances
            )
            if found.covariance is not None:
                parts.append(mixture_covariance(found.mean, found.covariance, posterior.weights))
            else:
                parts.append(mixture_moments(found.mean, found.variance, posterior.weights))
        mean, spread = zip(*parts, strict=True)
        return np.concatenate(mean), np.concatenate(spread)
