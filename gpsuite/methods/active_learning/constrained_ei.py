"""Constrained expected improvement: the usual rule if safety is only preferred, not guaranteed.

The score is the expected improvement times the probability of being safe. It ranks all candidates: no safety level or
guard excludes any.

Equation: Gardner et al. 2014
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import BoolArray
from gpsuite.methods.active_learning.acquisition import choose
from gpsuite.methods.active_learning.plan.ask_tell import Plan
from gpsuite.methods.active_learning.plan.optimum import expected_improvement


def constrained_expected_improvement(plan: Plan, measured: BoolArray, held: BoolArray, objective: int = 0) -> int:
    """Return the candidate of largest EI(x) P(x is safe), for an objective to minimise.

    Args:
        plan: predictions of the models at n candidates, by a planner without a guard.
        measured: mask of the measured candidates, [n]. They are not proposed again.
        held: mask of the measured candidates with a safe value, [n], at least one.

    Raises:
        ValueError: if every candidate was measured, or none gave a safe value.
    """
    mean, sd = plan.mean[:, objective], plan.sd[:, objective]
    if not held.any():
        raise ValueError("no measured candidate is safe")
    best = mean[held].min(keepdims=True)
    score = expected_improvement(mean[None], sd[None] ** 2, best, np.ones(1)) * plan.probability_safe
    chosen = choose(score, ~measured)
    if chosen is None:
        raise ValueError("every candidate was measured")
    return chosen[0]
