"""Shares of a plan's time among its parts.

Equation: derived, sequential Monte Carlo over hyperparameters
Equation: Li et al. 2022, Eq. (5), Eq. (6), Eq. (7)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.active_learning.acquisition import choose, draw, entropy, joint_entropy
from gpsuite.methods.active_learning.problem import SafetyLimit, rows_equal
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.posterior import HyperPosterior, mixture_covariance, mixture_moments
from gpsuite.models.sampling.sequential_monte_carlo import NewObservations, SMCSettings, SMCState, start, update

# Shares of the time after which the inference for the safety value, and that for the outputs, is cut short.
SAFETY_INFERENCE, INFERENCE = 0.3, 0.6
# However large the tables are.
LEAST_PARTICLES, LEAST_MEMBERS = 32, 16
# Numbers that are kept to condition on proposals: 0.8 GB.
ROOM = 100_000_000
# Of an inference that continues, with a few new values. Both likelihoods count.
WARM_STAGES = 3.0
# More is not spent on one posterior, or on one model's predictions, than with the least allows.
INFERENCE_SECONDS, PREDICTION_SECONDS = 2.0, 150.0
# Observations that enter a cold inference in one part.
AT_ONCE = 64
# Candidates predicted at together: memory does not grow with their number.
TOGETHER = 1000


class Clock:
    """Tells each part of a plan when it has to end. Without a limit, never."""

    def __init__(self, budget: Budget | None) -> None:
        self._budget = budget

    def safety_inference_ended(self) -> bool:
        return self._after(SAFETY_INFERENCE)

    def inference_ended(self) -> bool:
        return self._after(INFERENCE)

    def ended(self) -> bool:
        return self._after(1.0)

    def _after(self, share: float) -> bool:
        if self._budget is None or self._budget.seconds is None:
            return False
        self._budget.spend()  # so that progress is shown
        return self._budget.elapsed >= share * self._budget.seconds


# What a plan costs, from the sizes of its tables: so that large ones are planned with fewer hyperparameter
# vectors.
#
# The constants are CPU seconds of one core, fitted to measurements with 30 to 500 values and 1 to 10 outputs.
def gradient_seconds(values: int, outputs: int) -> float:
    """Return the seconds of one log marginal likelihood with its gradient, by N values of P outputs."""
    n = float(values)
    return 2.2e-9 * n**2 * outputs + 2.75e-11 * n**3 + 6e-7 * n + 5e-7 * float(outputs) ** 2


def gradients(smc: SMCSettings, values: int, outputs: int) -> float:
    stages = 1.0 + 1.2 * math.log2(1.0 + values) + 0.15 * outputs
    return stages * (1 + smc.moves * smc.leapfrog)


def part_sizes(values: int) -> list[int]:
    """Return the numbers of values after each part of a cold inference: halves of halves, the last one all."""
    sizes = [values]
    while sizes[0] > AT_ONCE:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def cold_seconds(smc: SMCSettings, values: int, outputs: int) -> float:
    """Return the seconds of a cold inference for one particle."""
    first, *more = part_sizes(values)
    seconds = gradients(smc, first, outputs) * gradient_seconds(first, outputs)
    return seconds + sum(warm_seconds(smc, size, outputs) for size in more)


def warm_seconds(smc: SMCSettings, values: int, outputs: int) -> float:
    """Return the seconds of an inference that continues, for one particle."""
    return WARM_STAGES * (1 + smc.moves * smc.leapfrog) * gradient_seconds(values, outputs)


def particles(smc: SMCSettings, values: int, outputs: int) -> int:
    """Return how many particles represent a posterior: at most those of the settings, at least the smaller of 32."""
    each = gradient_seconds(values, outputs) * gradients(smc, values, outputs)
    return min(smc.particles, max(LEAST_PARTICLES, int(INFERENCE_SECONDS / each)))


def prediction_seconds(values: int, outputs: int, candidates: int) -> float:
    return values * candidates * outputs * (5e-9 + 3.8e-11 * values)


def members(most: int, values: int, outputs: int, candidates: int) -> int:
    """Return how many of the particles predict: at most `most`, at least the smaller of that and 16."""
    each = prediction_seconds(values, outputs, candidates)
    return min(most, max(LEAST_MEMBERS, int(PREDICTION_SECONDS / each)))


def plan_seconds(
    values: int,
    safety_values: int,
    *,
    outputs: int,
    candidates: int,
    measurements: int,
    smc: SMCSettings,
    warm: bool = False,
) -> float:
    """Return the seconds of a plan. A warm one continues an earlier inference."""
    total = 0.0
    for n, P in ((safety_values, 1), (values, outputs)):
        each = warm_seconds(smc, n, P) if warm else cold_seconds(smc, n, P)
        total += particles(smc, n, P) * each
    judging = members(particles(smc, safety_values, 1), safety_values, 1, candidates)
    total += judging * safety_seconds(safety_values, candidates)
    predicting = members(particles(smc, values, outputs), values, outputs, candidates)
    total += predicting * prediction_seconds(values, outputs, candidates)
    if measurements > 1:
        again = min(candidates, ROOM // (predicting * outputs * (values + measurements)))
        total += predicting * prediction_seconds(values, outputs, again)
        total += 1e-9 * predicting * (measurements - 1) * values * again * outputs
    return total


def safety_seconds(values: int, candidates: int) -> float:
    n = float(values)
    return 1.2e-9 * n**3 + n * candidates * (1.2e-8 + 8e-11 * n)


def _halves(observations: Observations, rng: np.random.Generator) -> list[Observations]:
    """Return random parts of the sizes `part_sizes`, each within the next. The last holds all, in their order."""
    *sizes, _ = part_sizes(len(observations))
    order = rng.permutation(len(observations)) if sizes else np.empty(0, dtype=np.int64)
    X, p, y = observations.X, observations.p, observations.y
    parts = [Observations(X[chosen], p[chosen], y[chosen]) for chosen in (order[:size] for size in sizes)]
    return [*parts, observations]


class KnownValues:
    """Values read so far, in the user's units. A table may be read again, longer.

    Values of an output at one input are replicates, equal ones too: a rounded sensor repeats itself, and to count its
    reading once would give as much weight to a single one that differs. A repeated value is known already as often as
    one earlier table had it.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.observations = Observations(np.empty((0, width)), np.empty(0, dtype=np.int64), np.empty(0))
        self._counts: Counter[tuple[object, ...]] = Counter()

    def add(self, X: FloatArray, Y: FloatArray) -> None:
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
        rows, outputs = np.nonzero(~np.isnan(Y))
        return (self._counts - Counter(self._as_known(X[rows], outputs, Y[rows, outputs]))).total()

    def beyond(self, limit: SafetyLimit, X: FloatArray) -> BoolArray:
        """Return whether each of inputs [n, D] had a value beyond the limit, once at least, [n]."""
        found, first = np.zeros(len(X), dtype=np.bool_), self.observations
        for x in np.unique(first.X[~limit.holds(first.y)], axis=0):
            found[rows_equal(X, x)] = True
        return found

    def within(self, limit: SafetyLimit, X: FloatArray) -> BoolArray:
        """Return at which inputs [n, D] values were given and none of them beyond the limit, [n]."""
        told = np.zeros(len(X), dtype=np.bool_)
        for x in np.unique(self.observations.X, axis=0):
            told[rows_equal(X, x)] = True
        return np.asarray(told & ~self.beyond(limit, X))

    def _as_known(self, X: FloatArray, p: IntArray, y: FloatArray) -> list[tuple[float, ...]]:
        """Return values with input and output, each as it was read first, in case a program has rewritten it since."""
        first = self.observations
        known, told = np.column_stack([first.X, first.p, first.y]), np.column_stack([X, p, y])
        for row in told:
            if len(place := rows_equal(known, row)):
                row[:] = known[place[0]]
        return [tuple(row) for row in told.tolist()]


@dataclass(eq=False)
class Belief:
    """A model and the posterior of its hyperparameters, in the models' units."""

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
        """Draw the particles from the prior and lead them to the posterior, until `stop` says to end early.

        Many observations enter in random halves, quarters and so on, the smallest first: most stages then cost a part
        of a likelihood with all of them (Chopin 2002, Sec. 4).
        """
        first, *more = _halves(observations, rng)
        belief = cls(model, first, start(model, model.likelihood(first), rng, smc, stop))
        for part in more:
            if belief.unfinished:
                break
            belief.learn(part, rng, replace(smc, restart=0.0), stop)
        belief.observations = observations
        return belief

    @property
    def learnt(self) -> int:
        return len(self.observations)

    @property
    def unfinished(self) -> bool:
        """Whether inference stopped early: the particles know only a part of what was measured."""
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
        """Return at most this many of the particles, with weights, that represent the posterior in predictions.

        Fewer than all are taken at equal steps of their summed weights, and weigh the same.
        """
        posterior = self.cloud.posterior
        if most >= len(posterior):
            return posterior
        edges = np.cumsum(posterior.weights)
        teeth = (np.arange(most) + 0.5) / most
        chosen = np.searchsorted(edges / edges[-1], teeth)
        return HyperPosterior(posterior.u[chosen], np.full(most, 1.0 / most))


def in_parts(rows: IntArray, size: int, out_of_time: Callable[[], bool]) -> Iterator[IntArray]:
    """Cut rows into parts of at most `size` that each run through all of them, the first even if there is no time."""
    count = -(-len(rows) // size)
    for number in range(count):
        if number and out_of_time():
            return
        yield rows[number::count]


class OutputPredictions:
    """Predictions of the outputs' model at candidates, before anything that is proposed is measured.

    Attributes:
        mean: of the mixture at each candidate, NaN until predicted, [n, P].
        variance: the same, of the noise-free outputs, [n, P].
        score: entropy of what can be measured there: of each output [n, P], or of all together [n, 1]; NaN until
            predicted.
        kept: output whose predictions by each hyperparameter vector are kept.
        components: mean and variance of that output by each of S hyperparameter vectors, [2, S, n], or [2, 0, n].
    """

    def __init__(
        self, belief: Belief, posterior: HyperPosterior, X: FloatArray, full: bool, kept: int | None = None
    ) -> None:
        self._belief, self._posterior, self._X, self._full = belief, posterior, X, full
        P = belief.model.n_outputs
        self.kept = kept or 0
        self.components = np.full((2, 0 if kept is None else len(posterior), len(X)), np.nan)
        self.mean, self.variance = np.full((2, len(X), P), np.nan)
        self.score = np.full((len(X), 1 if full else P), np.nan)

    def predict(self, rows: IntArray, out_of_time: Callable[[], bool]) -> int:
        done = 0
        for part in in_parts(rows, TOGETHER, out_of_time):
            found = PoolPredictions(
                self._belief.model, self._posterior.u, self._belief.observations, self._X[part], covariances=self._full
            )
            self.mean[part], self.variance[part], self.score[part] = _judged(found, self._posterior.weights)
            if self.components.shape[1]:
                self.components[:, :, part] = found.mean[..., self.kept], found.variance[..., self.kept]
            done += len(part)
        return done

    def same(self, row: int) -> BoolArray:
        """Return which candidates are equal to one of them, [n]."""
        return np.asarray((self._X[row] == self._X).all(axis=1))

    def extendable(self, rows: IntArray, more: int) -> PoolPredictions:
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
    """A measurement to make: row of the candidates, output (None: all), its entropy in nats, and what it may gain."""

    row: int
    p: int | None
    entropy: float
    gain: float = math.nan


class Chooser:
    """Chooses measurements one after another, each as if those before were measured and gave what is expected.

    At given hyperparameters the variances do not depend on the values.
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
        """Return up to n choices among the allowed, [n, P] or [n, 1]. Fewer if there is no time left.

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
            condition(found, place, chosen[-1].p, mean[place])
            mean, _, score = _judged(found, self._posterior.weights)
        return chosen

    def _best(self, score: FloatArray, allowed: BoolArray) -> tuple[int, ...] | None:
        return choose(score, allowed) if self._rng is None else draw(allowed, self._rng)

    def _shortlist(self, first: int, allowed: BoolArray, more: int) -> IntArray:
        rows = np.flatnonzero(allowed.any(axis=1))
        room = max(2, self._outputs.room(more))
        if len(rows) > room:
            largest = np.where(allowed[rows], self._outputs.score[rows], -np.inf).max(axis=1)
            rows = rows[np.argsort(-largest, kind="stable")]
            top = room // 2
            spread = np.linspace(top, len(rows) - 1, room - top).astype(np.int64)
            rows = np.concatenate([rows[:top], rows[spread]])
        return np.union1d(rows, [first]).astype(np.int64)


def condition(found: PoolPredictions, place: int, p: int | None, expected: FloatArray) -> None:
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
