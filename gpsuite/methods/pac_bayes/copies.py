"""Copies among the rows: bounds that hold whether all are repeated draws or all are one draw stored again.

If equal rows are independent draws that happen to agree, the mean loss over all n rows bounds the risk, with n rows or
with fewer. If each is one draw stored several times, the mean over the m different rows does, with m; one that also
decided something else, such as the prior, counts as lost. The larger of the two means with m rows is sound in both
cases; not in a mixture of them, where some rows were drawn again and others stored again.

Equation: derived, copies among the rows
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.splits import DifferentRows
from gpsuite.errors import UserError
from gpsuite.methods.pac_bayes.bounds.held_out import binomial_upper_bound
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import Posterior, gibbs_risk


class FewDifferentError(UserError):
    """Every test row of a split repeats a training row."""


@dataclass(frozen=True)
class Copies:
    """Which points are copies of others.

    Attributes:
        train: the different training points; None if all are.
        test: the same of the test points, of which training may have seen some.
    """

    train: DifferentRows | None = None
    test: DifferentRows | None = None

    @classmethod
    def of_split(cls, train: IntArray, test: IntArray, groups: IntArray | None) -> Copies:
        """Return which rows of a random split are copies of others.

        Args:
            train: row numbers of the training set.
            test: row numbers of the test set.
            groups: `Dataset.groups`, the number of the first row that equals each row, [N], or None.

        Raises:
            FewDifferentError: if every test row repeats a training row.
        """
        found = cls(DifferentRows.of(train, train[:0], groups), DifferentRows.of(test, train, groups))
        for side in (found.train, found.test):
            if side is not None and not len(side.places):
                told = "every test row of the split repeats a training row: add different rows"
                raise FewDifferentError(f"test_share: {told}", key="test_share")
        return found


ALL_DIFFERENT = Copies()


def means(losses: FloatArray, different: DifferentRows | None) -> tuple[float, float]:
    """Return the mean over all points, and over the different ones."""
    every = float(losses.mean())
    if different is None:
        return every, every
    return every, float(np.where(different.seen, 1.0, losses[different.places]).mean())


def cautious_upper_bound(errors: BoolArray, different: DifferentRows | None, delta: float) -> float:
    """Return the upper limit of an error rate, the larger one of all held-out points and of the different ones.

    Args:
        errors: whether the prediction of each point was an error, [H].
        different: of these points; None if all are.
        delta: allowed probability of failure, in (0, 1).
    """
    every = binomial_upper_bound(int(errors.sum()), len(errors), delta)
    if different is None:
        return every
    lost = errors[different.places] | different.seen
    if not len(lost):
        return 1.0
    return max(every, binomial_upper_bound(int(lost.sum()), len(lost), delta))


def cautious_risk(posterior: Posterior, loss: Loss, copies: Copies) -> tuple[float, float, int]:
    """Return the middle of the two training risks, half of their distance, and the number of different points."""
    y = posterior.y
    if copies.train is None:
        return gibbs_risk(posterior, loss), 0.0, len(y)
    losses = loss.expected(y, posterior.train_mean, posterior.train_variance)
    every, different = (min(mean, 1.0) for mean in means(losses, copies.train))
    return 0.5 * (every + different), 0.5 * abs(every - different), len(copies.train.places)
