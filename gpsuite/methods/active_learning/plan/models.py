"""What a plan knows: the values told so far, and a model with the posterior of its hyperparameters.

Equation: derived, sequential Monte Carlo over hyperparameters
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.active_learning.problem import rows_equal
from gpsuite.methods.active_learning.safety import SafetyLimit
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations
from gpsuite.models.sampling.posterior import HyperPosterior
from gpsuite.models.sampling.sequential_monte_carlo import (
    NewObservations,
    SMCSettings,
    SMCState,
    start,
    update,
)


class KnownValues:
    """Values told so far, in the user's units; a table may be told again, longer.

    Values of an output at one input are replicates, equal ones too: a rounded sensor repeats itself, and to count its
    reading once would give as much weight to a single one that differs. A value told again is known already as often
    as it was told in one table before.

    Args:
        width: number D of inputs.

    Attributes:
        observations: the values, in the order told.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.observations = Observations(np.empty((0, width)), np.empty(0, dtype=np.int64), np.empty(0))
        self._counts: Counter[tuple[object, ...]] = Counter()

    def add(self, X: FloatArray, Y: FloatArray) -> None:
        """Take in what is new in rows with gaps."""
        rows, outputs = np.nonzero(~np.isnan(Y))
        self.take(X[rows], outputs.astype(np.int64), Y[rows, outputs])

    def take(self, X: FloatArray, p: IntArray, y: FloatArray) -> None:
        """Take in what is new among values [m] of outputs [m] at inputs [m, D]."""
        new, told = [], Counter[tuple[object, ...]]()
        for i, value in enumerate(self._as_known(X, p, y)):
            told[value] += 1
            if told[value] > self._counts[value]:
                self._counts[value] = told[value]
                new.append(i)
        self.observations = self.observations.extended(X[new], p[new], y[new])

    def lost(self, X: FloatArray, Y: FloatArray) -> int:
        """Return how many known values are not in these rows."""
        rows, outputs = np.nonzero(~np.isnan(Y))
        return (self._counts - Counter(self._as_known(X[rows], outputs, Y[rows, outputs]))).total()

    def beyond(self, limit: SafetyLimit, X: FloatArray) -> BoolArray:
        """Return at which inputs [n, D] a value beyond the limit was told, once at least, [n]."""
        found, first = np.zeros(len(X), dtype=np.bool_), self.observations
        for x in np.unique(first.X[~limit.holds(first.y)], axis=0):
            found[rows_equal(X, x)] = True
        return found

    def _as_known(self, X: FloatArray, p: IntArray, y: FloatArray) -> list[tuple[float, ...]]:
        """Return values with input and output, each as it was told first, should a program have rewritten it since."""
        first = self.observations
        known, told = np.column_stack([first.X, first.p, first.y]), np.column_stack([X, p, y])
        for row in told:
            if len(place := rows_equal(known, row)):
                row[:] = known[place[0]]
        return [tuple(row) for row in told.tolist()]


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
        cls,
        model: MultiOutputModel,
        observations: Observations,
        rng: np.random.Generator,
        smc: SMCSettings,
        stop: Callable[[], bool] = lambda: False,
    ) -> Belief:
        """Infer from the observations alone, until `stop` says to end early."""
        return cls(model, observations, start(model, model.likelihood(observations), rng, smc, stop))

    @property
    def learnt(self) -> int:
        """Number of values the posterior knows."""
        return len(self.observations)

    @property
    def unfinished(self) -> bool:
        """Whether inference was stopped early: the particles then know a part of what was measured."""
        return "beta" in self.cloud.diagnostics

    def learn(
        self,
        observations: Observations,
        rng: np.random.Generator,
        smc: SMCSettings,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take in observations that begin with those known, until `stop` says to end early."""
        if len(observations) == self.learnt:
            return
        before, after = self.model.likelihood(self.observations), self.model.likelihood(observations)
        with np.errstate(invalid="ignore"):  # a particle without weight may have -inf before and after
            gain = after.value(self.cloud.u) - self.cloud.lml
        self.cloud = update(self.cloud, self.model, NewObservations(before, after, gain), rng, smc, stop)
        self.observations = observations

    def predicting(self, most: int) -> HyperPosterior:
        """Return at most this many of the particles, with weights, that stand for the posterior in predictions.

        Fewer than all are taken at equal steps of their summed weights, and weigh the same.
        """
        posterior = self.cloud.posterior
        if most >= len(posterior):
            return posterior
        edges = np.cumsum(posterior.weights)
        teeth = (np.arange(most) + 0.5) / most
        chosen = np.searchsorted(edges / edges[-1], teeth)
        return HyperPosterior(posterior.u[chosen], np.full(most, 1.0 / most))
