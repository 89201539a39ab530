"""Which candidates of a plan are probably safe, and what should be known before that is believed.

Equation: Li et al. 2022, Eq. (8), Eq. (9)
Equation: derived, guard of the safety model
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.active_learning.plan.predictions import in_parts
from gpsuite.methods.active_learning.plan.safety_guard import SafetyGuard, SafetyPrediction
from gpsuite.methods.active_learning.plan.units import far_inputs
from gpsuite.methods.active_learning.safety import SafetyLimit, safe_set
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.posterior import HyperPosterior
from gpsuite.text import counted as number_of

TOGETHER = 1000
"""Candidates judged between two looks at the clock."""

FEW, SCATTER, SPACING = 5, 0.5, 0.1
"""Warned of: fewer safety values; more noise, in root mean squares of z - limit; measured points farther apart, in
measured ranges, if most candidates lie between them."""

ALIKE = 1e-3
"""Probabilities of being safe that differ by no more are alike."""


@dataclass(frozen=True, eq=False)
class SafetyJudgement:
    """What a safety model says at n candidates.

    Attributes:
        probability: of being safe; NaN where there was no time, [n].
        safe: probability above 1 - delta, and within the guard's step, [n].
        beyond_step: probability above 1 - delta, but farther out than the step, [n].
        judged: number of candidates for which there was time.
    """

    probability: FloatArray
    safe: BoolArray
    beyond_step: BoolArray
    judged: int


@dataclass(frozen=True, eq=False)
class SafetyModel:
    """What is believed of the safety value; everything in the model's units.

    Attributes:
        model: prior of the safety value.
        posterior: hyperparameter vectors that predict.
        known: safety values.
        limit: when a safety value is safe.
    """

    model: LinearCoregionalization
    posterior: HyperPosterior
    known: Observations
    limit: SafetyLimit

    def judge(
        self, X: FloatArray, delta: float, guard: SafetyGuard | None, out_of_time: Callable[[], bool]
    ) -> SafetyJudgement:
        """Judge candidates X [n, D].

        Args:
            X: candidates.
            delta: a safe candidate's probability of being safe is above 1 - delta.
            guard: of predictions and step; None: neither.
            out_of_time: asked now and then; true ends the work.
        """
        parameters, known, limit = self.model.constrain(self.posterior.u), self.known, self.limit
        weights, counted = self.posterior.weights, self.counted(X)
        prediction = SafetyPrediction(self.model.kernel, parameters, weights, known, limit, guard, counted)
        probability = np.full(len(X), np.nan)
        judged = 0
        for part in in_parts(np.arange(len(X)), TOGETHER, out_of_time):
            probability[part] = prediction.probability(X[part])
            judged += len(part)
        probable = safe_set(probability, delta)
        near = np.ones(len(X), dtype=np.bool_)
        if guard is not None and guard.hardly_varied(*prediction.moments(counted), limit):
            near = guard.outside(counted, X) <= guard.step
        return SafetyJudgement(probability, probable & near, probable & ~near, judged)

    def counted(self, X: FloatArray) -> FloatArray:
        """Return the measured inputs that count for the measured range, given candidates X [n, D]; see `far_inputs`."""
        return np.asarray(self.known.X[~far_inputs(self.known.X, X).any(axis=1)])

    def safest(self, X: FloatArray, probability: FloatArray) -> int:
        """Return the row of the most probably safe candidate, of X [n, D]; of about equal ones the nearest.

        Far from what was measured all are as probable as the prior says: taken is then the one that is nearest to a
        safe measured input.
        """
        equal = np.flatnonzero(probability >= probability.max() - ALIKE)
        safe = self.known.X[self.limit.holds(self.known.y)]
        return int(equal[np.argmin(KDTree(safe).query(X[equal])[0])])

    def warnings(self, X: FloatArray, guard: SafetyGuard, names: Sequence[str]) -> list[str]:
        """Return what makes the model doubtful, by its posterior and what was measured.

        Args:
            X: candidates [n, D].
            guard: what counts as a range.
            names: of the D inputs.
        """
        known, counted, warnings = self.known, self.counted(X), []
        if len(known) < FEW:
            warnings.append(f"only {len(known)} safety values: their probabilities are mostly the prior's")
        far = far_inputs(known.X, X)
        for name, count in zip(names, far.sum(axis=0), strict=True):
            if count:
                warnings.append(
                    f"{name}: {number_of(int(count), 'safety value')} measured far from all others and from every "
                    "candidate: in another unit, or mistyped? the measured range is taken without"
                )
        constant = [
            name for name, range_ in zip(names, np.ptp(counted, axis=0), strict=True) if range_ == 0.0
        ]
        if constant:
            warnings.append(
                f"{', '.join(constant)} never varied where safety was measured: nothing is known along it"
            )
        distance = np.sqrt(np.mean((known.y - self.limit.value) ** 2))
        noise = np.sqrt(self.posterior.weights @ self.model.constrain(self.posterior.u).noise[:, 0])
        if noise > SCATTER * distance:
            share = (
                f"sd {noise / distance:.2g} of their distance to the limit"
                if distance
                else "all at the limit"
            )
            warnings.append(
                f"safety values are mostly scatter ({share}): it may be their own structure; measure one point again"
            )
        between = np.mean(guard.outside(counted, X) == 0.0)
        spacing = _spacing(counted / guard.ranges(counted))
        if between > 0.5 and spacing > SPACING:
            warnings.append(
                f"measured points lie {spacing:.2g} of the measured range apart: what is narrower is not seen, and a "
                "proposal between them may meet it"
            )
        return warnings


def _spacing(X: FloatArray) -> float:
    """Return the median distance of an input [N, D] from the nearest other one; 0 if there is no other."""
    X = np.unique(X, axis=0)
    if len(X) < 2:
        return 0.0
    return float(np.median(KDTree(X).query(X, k=[2])[0]))
