"""The best setting, found safely: which measurement improves it, and what is known of it.

A measurement at a safe x is worth what it may gain itself, and what it may open:

    score(x) = EI(x) + max over u not yet allowed of EI(u) P(u is allowed once x is measured)

EI is the expected improvement on the best measured safe setting, averaged over the hyperparameters. The second term is
what the next but one measurement may gain where the first one makes u safe enough: the value of looking one step ahead.
Measuring the safety value at x moves the mean at u by a normal variable and shrinks its variance, see
`SafetyPrediction.passing`. Where u is kept back by the guard's step only, x counts for the share of the way that it
leads there. Where nothing worth having lies outside the safe set, the second term vanishes automatically. No constant
weighs the two. A far optimum that no single measurement can make safe counts a little, by the share of the doubt about
it that the measurement removes, so that the search continues.

From Python, with `bench(x)` your measurement of the output and of the safety value:

    import numpy as np
    from gpsuite.methods.active_learning import MeasurementPlanner, SafetyLimit

    planner = MeasurementPlanner(SafetyLimit("<= 1.0"), np.random.default_rng(0), goal="minimise")
    planner.tell(X, y, z)  # a few settings known to be safe
    for _ in range(20):
        x = planner.ask(candidates).proposals[0].x
        planner.tell(x, *bench(x))
    best = planner.ask(candidates).recommendation
    print(best.x, best)

Equation: derived, expected improvement with the value of access
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import ndtr

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.active_learning.acquisition import choose
from gpsuite.methods.active_learning.plan.predictions import Choice, OutputPredictions, condition
from gpsuite.methods.active_learning.plan.safety import SafetyJudgement

Goal = Literal["learn", "minimise", "maximise"]
# Settings outside the safe set whose access is valued: a third each are those worth most, those most probably safe, and
# some spread over the others. Hyperparameter vectors that judge what a measurement tells of their safety.
OUTSIDE, ACCESS_MEMBERS = 150, 8
# More measurements pay while one is expected to gain at least this share of the measured values' range.
WORTHWHILE = 0.01
# Standard deviations on either side of a predicted value: 95 % of a normal distribution.
INTERVAL = 1.96


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The setting to use by what is measured so far, in the user's units.

    Attributes:
        x: inputs [D], a candidate or a measured setting.
        value: predicted objective there, without noise.
        low: lower end of its 95 % interval.
        high: upper end.
        probability_safe: of x.
        measured: whether the objective was measured there.
        gain: what the best next measurement is expected to gain, itself or by what it opens. NaN if there is none.
        pays: whether the gain is above a hundredth of the range of the objective's measured values.
    """

    x: FloatArray
    value: float
    low: float
    high: float
    probability_safe: float
    measured: bool
    gain: float
    pays: bool

    def __str__(self) -> str:
        pays = "would pay" if self.pays else "would hardly pay"
        more = f"More measurements {pays} (expected gain {self.gain:.3g})"
        return (
            f"predicted {self.value:.6g} (95 % interval {self.low:.6g} to {self.high:.6g}), safe with probability "
            f"{self.probability_safe:.4f}. {'No measurement is proposed' if math.isnan(self.gain) else more}"
        )


def expected_improvement(mean: FloatArray, variance: FloatArray, best: FloatArray, weights: FloatArray) -> FloatArray:
    """Return E max(best - f, 0) at n inputs by a mixture of S normal distributions, [n].

    Args:
        mean: of f by each hyperparameter vector, [S, n].
        variance: the same, [S, n].
        best: least value so far by each, [S].
        weights: of the hyperparameter vectors, [S].

    Equation: Jones et al. 1998, Eq. (15)
    """
    sd = np.sqrt(np.maximum(variance, 0.0))
    gain = best[:, None] - mean
    with np.errstate(divide="ignore", invalid="ignore"):
        u = np.where(sd > 0.0, gain / sd, np.where(gain > 0.0, np.inf, -np.inf))
    density = np.exp(-0.5 * u**2) / np.sqrt(2.0 * np.pi)
    each = np.maximum(np.where(np.isfinite(u), gain * ndtr(u) + sd * density, np.maximum(gain, 0.0)), 0.0)
    return np.asarray(weights @ np.where(np.isnan(mean), np.nan, each))


@dataclass(frozen=True, eq=False)
class MeasuredSettings:
    """Predictions of the models at the m settings X [m, D] where the objective was measured, in the models' units."""

    X: FloatArray
    outputs: OutputPredictions
    probability: FloatArray

    def safe(self, delta: float) -> BoolArray:
        """Return which are safe with probability above 1 - delta, or the surest if none is, [m]."""
        safe = self.probability > 1.0 - delta
        return safe if safe.any() else np.asarray(self.probability == np.nanmax(self.probability))

    def best(self, sign: float, delta: float) -> FloatArray:
        """Return the least signed mean among the safe ones by each hyperparameter vector, [S]."""
        return np.asarray((sign * self.outputs.components[0][:, self.safe(delta)]).min(axis=1))


@dataclass(frozen=True, eq=False)
class Access:
    """Value of the settings outside the safe set, and how probably a measurement opens them.

    Attributes:
        value: expected improvement at m settings outside, [m].
        chance: that each is allowed once one of n candidates is measured, 0 of candidates that may not be measured
            now, [n, m].
    """

    value: FloatArray
    chance: FloatArray

    @classmethod
    def of(
        cls,
        X: FloatArray,
        improvement: FloatArray,
        safety: SafetyJudgement,
        chance: Callable[[IntArray, IntArray], FloatArray],
    ) -> Access:
        """Value settings outside the safe set of candidates X [n, D].

        Args:
            X: in the model's units.
            improvement: expected at every candidate, [n].
            safety: of the candidates.
            chance: of rows inside and rows outside, [inside, outside].
        """
        value, probability = np.nan_to_num(improvement), np.nan_to_num(safety.probability)
        inside, outside = np.flatnonzero(safety.safe), np.flatnonzero(~safety.safe & (value > 0.0))
        if len(outside) > OUTSIDE:
            third, worth = OUTSIDE // 3, value[outside] * probability[outside]
            most = outside[np.argsort(-worth, kind="stable")[:third]]
            surest = outside[np.argsort(-probability[outside], kind="stable")[:third]]
            outside = np.unique(np.concatenate([most, surest, outside[:: len(outside) // third]]))
        chances = np.zeros((len(X), len(outside)))
        if len(outside) and len(inside):
            chances[inside] = chance(inside, outside)
        return cls(value[outside], chances)

    def at(self, rows: IntArray) -> FloatArray:
        """Return what a measurement at each of the candidates may open, [len(rows)]."""
        if not len(self.value):
            return np.zeros(len(rows))
        return np.asarray((self.value * self.chance[rows]).max(axis=1))

    def after(self, row: int) -> Access:
        """Return what is left to be opened once a candidate is measured."""
        return replace(self, value=self.value * (1.0 - self.chance[row]))


class ImprovementChooser:
    """Chooses measurements by `score`, each as if those before were measured and gave the expected values.

    Args:
        outputs: their predictions at the candidates, with the components of the objective.
        sign: 1 to minimise, -1 to maximise.
        best: least signed mean of the objective at measured safe settings, by each hyperparameter vector, [S].
    """

    def __init__(
        self, outputs: OutputPredictions, sign: float, best: FloatArray, weights: FloatArray, full: bool
    ) -> None:
        self._outputs, self._sign, self._best, self._weights, self._full = outputs, sign, best, weights, full

    def improvement(self) -> FloatArray:
        """Return the expected improvement at every candidate, [n]; NaN where nothing is predicted."""
        mean, variance = self._outputs.components
        return expected_improvement(self._sign * mean, variance, self._best, self._weights)

    def choose(self, allowed: BoolArray, access: Access, n: int, out_of_time: Callable[[], bool]) -> list[Choice]:
        """Return up to n choices among the allowed [n], fewer if there is no time left."""
        outputs, p, chosen = self._outputs, self._outputs.kept, list[Choice]()
        allowed = allowed & np.isfinite(outputs.components[0]).all(axis=0)
        rows, score, found = np.arange(len(allowed)), self.improvement() + access.at(np.arange(len(allowed))), None
        spread, best = outputs.variance[:, p], self._best
        while not (chosen and out_of_time()):
            # of equally worthless ones the least known
            position = choose(score if np.nanmax(score[allowed[rows]], initial=0.0) > 0.0 else spread, allowed[rows])
            if position is None:
                break
            row = int(rows[position])
            told = float(outputs.score[row, 0 if self._full else p])
            chosen.append(Choice(row, None if self._full else p, told, float(score[position])))
            allowed[outputs.same(row)] = False
            if len(chosen) == n:
                break
            if found is None:
                more = (n - 1) * (outputs.mean.shape[1] if self._full else 1)
                rows = self._shortlist(row, score, allowed, more)
                found, mean = outputs.extendable(rows, more), outputs.mean[rows]
            place, access = int(np.searchsorted(rows, row)), access.after(row)
            best = np.minimum(best, self._sign * found.mean[:, place, p])
            condition(found, place, chosen[-1].p, mean[place])
            mean, spread = np.einsum("s,snp->np", self._weights, found.mean), self._weights @ found.variance[..., p]
            gain = expected_improvement(self._sign * found.mean[..., p], found.variance[..., p], best, self._weights)
            score = gain + access.at(rows)
        return chosen

    def _shortlist(self, first: int, score: FloatArray, allowed: BoolArray, more: int) -> IntArray:
        rows = np.flatnonzero(allowed)
        rows = rows[np.argsort(-score[rows], kind="stable")][: max(2, self._outputs.room(more))]
        return np.union1d(rows, [first]).astype(np.int64)
