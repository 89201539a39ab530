"""Outputs at the candidates of a plan, and which measurements come one after another.

Equation: Li et al. 2022, Eq. (5), Eq. (6), Eq. (7)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.active_learning.acquisition import choose, draw, entropy, joint_entropy
from gpsuite.methods.active_learning.plan.effort import ROOM
from gpsuite.methods.active_learning.plan.models import Belief
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.mixtures import mixture_covariance, mixture_moments
from gpsuite.models.sampling.posterior import HyperPosterior

TOGETHER = 1000
"""Candidates predicted at together: memory does not grow with their number."""


def in_parts(rows: IntArray, size: int, out_of_time: Callable[[], bool]) -> Iterator[IntArray]:
    """Cut rows into parts of at most `size` that each run through all of them, the first even if there is no time."""
    count = -(-len(rows) // size)
    for number in range(count):
        if number and out_of_time():
            return
        yield rows[number::count]


class OutputPredictions:
    """What the outputs' model says at candidates, before anything that is proposed is measured.

    Args:
        belief: model and observations.
        posterior: hyperparameter vectors that predict.
        X: candidates in the model's units, [n, D].
        full: whether all outputs are measured together.

    Attributes:
        mean: of the mixture at each candidate, NaN until predicted, [n, P].
        variance: the same, of the noise-free outputs, [n, P].
        score: entropy of what can be measured there: of each output [n, P], or of all together [n, 1]; NaN until
            predicted.
    """

    def __init__(self, belief: Belief, posterior: HyperPosterior, X: FloatArray, full: bool) -> None:
        self._belief, self._posterior, self._X, self._full = belief, posterior, X, full
        P = belief.model.n_outputs
        self.mean, self.variance = np.full((2, len(X), P), np.nan)
        self.score = np.full((len(X), 1 if full else P), np.nan)

    def predict(self, rows: IntArray, out_of_time: Callable[[], bool]) -> int:
        """Predict at some candidates until there is no time left; return at how many."""
        done = 0
        for part in in_parts(rows, TOGETHER, out_of_time):
            found = PoolPredictions(
                self._belief.model,
                self._posterior.u,
                self._belief.observations,
                self._X[part],
                covariances=self._full,
            )
            self.mean[part], self.variance[part], self.score[part] = _judged(found, self._posterior.weights)
            done += len(part)
        return done

    def extendable(self, rows: IntArray, more: int) -> PoolPredictions:
        """Return predictions at some candidates that can be conditioned on some more values."""
        known = self._belief.observations
        return PoolPredictions(
            self._belief.model,
            self._posterior.u,
            known,
            self._X[rows],
            capacity=len(known) + more,
            covariances=self._full,
        )

    def room(self, more: int) -> int:
        """Return at how many candidates such predictions fit into `ROOM`."""
        P = self.mean.shape[1]
        each = len(self._belief.observations) + more + (P if self._full else 1)
        return int(ROOM // (len(self._posterior) * P * each))


class Choice(NamedTuple):
    """A measurement to make: row of the candidates, output (None: all), and its entropy in nats."""

    row: int
    p: int | None
    entropy: float


class Chooser:
    """Chooses measurements one after another, each as if those before were measured and gave what is expected.

    At given hyperparameters the variances do not depend on the values.

    Args:
        candidates: [n, D], only compared with each other.
        outputs: what is predicted there.
        posterior: hyperparameter vectors that predict.
        full: whether all outputs are measured together.
        rng: draws at random in place of the largest entropy; None: the largest.
    """

    def __init__(
        self,
        candidates: FloatArray,
        outputs: OutputPredictions,
        posterior: HyperPosterior,
        full: bool,
        rng: np.random.Generator | None,
    ) -> None:
        self._candidates, self._outputs, self._posterior = candidates, outputs, posterior
        self._full, self._rng = full, rng

    def choose(self, allowed: BoolArray, n: int, out_of_time: Callable[[], bool]) -> list[Choice]:
        """Return up to n choices among the allowed, [n, P] or [n, 1]; fewer if there is no time left.

        Of a pool too large to be conditioned on, the second and later ones come from a part of the allowed: half of it
        those of largest entropy, half spread over the others.
        """
        outputs, chosen = self._outputs, list[Choice]()
        allowed = allowed & ~np.isnan(outputs.score)
        rows, score, mean = np.arange(len(allowed)), outputs.score, outputs.mean
        found: PoolPredictions | None = None
        while not (chosen and out_of_time()):
            best = self._best(score, allowed[rows])
            if best is None:
                break
            row, column = int(rows[best[0]]), best[1]
            chosen.append(Choice(row, None if self._full else column, float(score[best])))
            allowed[(self._candidates == self._candidates[row]).all(axis=1), column] = False
            if len(chosen) == n:
                break
            if found is None:
                more = (n - 1) * (mean.shape[1] if self._full else 1)
                rows = self._shortlist(row, allowed, more)
                found, mean = outputs.extendable(rows, more), outputs.mean[rows]
            place = int(np.searchsorted(rows, row))
            _condition(found, place, chosen[-1].p, mean[place])
            mean, _, score = _judged(found, self._posterior.weights)
        return chosen

    def _best(self, score: FloatArray, allowed: BoolArray) -> tuple[int, ...] | None:
        return choose(score, allowed) if self._rng is None else draw(allowed, self._rng)

    def _shortlist(self, first: int, allowed: BoolArray, more: int) -> IntArray:
        """Return the rows, ascending, among which the later choices are made: all allowed ones if there is room."""
        rows = np.flatnonzero(allowed.any(axis=1))
        room = max(2, self._outputs.room(more))
        if len(rows) > room:
            largest = np.where(allowed[rows], self._outputs.score[rows], -np.inf).max(axis=1)
            rows = rows[np.argsort(-largest, kind="stable")]
            top = room // 2
            spread = np.linspace(top, len(rows) - 1, room - top).astype(np.int64)
            rows = np.concatenate([rows[:top], rows[spread]])
        return np.union1d(rows, [first]).astype(np.int64)


def _condition(found: PoolPredictions, place: int, p: int | None, expected: FloatArray) -> None:
    """Take in that output p (None: all) at the pool's input `place` is as expected, [P]."""
    outputs = np.arange(len(expected)) if p is None else np.array([p])
    X, y = np.repeat(found.X_pool[[place]], len(outputs), axis=0), expected[outputs]
    longer = found.observations.extended(X, outputs, y)
    try:
        found.extend(X, outputs, y)
    except np.linalg.LinAlgError:  # a predictive variance lost to rounding: no row can be added
        found.recompute(found.u, longer)


def _judged(found: PoolPredictions, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mixture's means and variances [n, P], and its entropies [n, P] or (of all outputs together) [n, 1]."""
    if found.covariance is None:
        mean, variance = mixture_moments(found.mean, found.variance, weights)
        return mean, variance, entropy(variance)
    mean, covariance = mixture_covariance(found.mean, found.covariance, weights)
    return mean, np.einsum("npp->np", covariance), joint_entropy(covariance)[:, None]
