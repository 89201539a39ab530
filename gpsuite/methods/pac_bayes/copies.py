"""Copies among the rows: bounds that hold whether they are repeated draws or one draw stored several times.

If equal rows are independent draws that happen to agree, the mean loss over all n rows bounds the risk, with n rows or
with fewer. If each is one draw stored several times, the mean over the m different rows does, with m. The larger of
the two means with m rows is sound in both cases.

Equation: derived, copies among the rows
"""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.pac_bayes.bounds.held_out import binomial_upper_bound
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import Posterior, gibbs_risk


@dataclass(frozen=True)
class Copies:
    """Which points are copies of others.

    Attributes:
        train: positions of the different training points; None if all are.
        test: the same of the test points.
    """

    train: IntArray | None = None
    test: IntArray | None = None


ALL_DIFFERENT = Copies()


def means(losses: FloatArray, first: IntArray | None) -> tuple[float, float]:
    """Return the mean over all points, and over the different ones at the positions `first`."""
    every = float(losses.mean())
    return every, every if first is None else float(losses[first].mean())


def cautious_upper_bound(errors: BoolArray, first: IntArray | None, delta: float) -> float:
    """Return the upper limit of an error rate, the larger one of all held-out points and of the different ones.

    Args:
        errors: whether the prediction of each point was an error, [H].
        first: positions of the different points; None if all are.
        delta: allowed probability of failure, in (0, 1).
    """
    every = binomial_upper_bound(int(errors.sum()), len(errors), delta)
    return (
        every
        if first is None
        else max(every, binomial_upper_bound(int(errors[first].sum()), len(first), delta))
    )


def cautious_risk(posterior: Posterior, loss: Loss, copies: Copies) -> tuple[float, float, int]:
    """Return the middle of the two training risks, half of their distance, and the number of different points."""
    y = posterior.y
    if copies.train is None:
        return gibbs_risk(posterior, loss), 0.0, len(y)
    losses = loss.expected(y, posterior.train_mean, posterior.train_variance)
    every, different = (min(mean, 1.0) for mean in means(losses, copies.train))
    return 0.5 * (every + different), 0.5 * abs(every - different), len(copies.train)
