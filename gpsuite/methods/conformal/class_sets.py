"""Sets of classes that contain the true class: adaptive sets for all rows together, and a threshold for each class.

Equation: Romano et al. 2020, Theorem 1
Equation: Vovk 2012, Prop. 2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.conformal.intervals import quantile_rank, split_radii, split_radius


def adaptive_scores(probabilities: FloatArray, u: FloatArray) -> FloatArray:
    """Return the probability of the classes before each class, plus the share u of the class' own probability, [B, C].

    Classes are sorted by their probability, ties by number. With u uniform in (0, 1), drawn for each row, sets of the
    smallest scores have the coverage and little more. With u = 1 they are larger.

    Args:
        probabilities: [B, C].
        u: a number in [0, 1] for each row, [B].

    Raises:
        ValueError: if a probability is outside [0, 1] or the shapes disagree.
    """
    p = _checked(probabilities)
    if u.shape != p.shape[:1] or not ((u >= 0.0) & (u <= 1.0)).all():
        raise ValueError(f"u: {len(p)} numbers in [0, 1] are needed, got {u.shape}")
    order = np.argsort(-p, axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=1)
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, np.cumsum(ordered, axis=1) - (1.0 - u[:, None]) * ordered, axis=1)
    return np.maximum(scores, 0.0)


def label_scores(probabilities: FloatArray) -> FloatArray:
    """Return 1 minus the probability of each class, [B, C]. ValueError as for `adaptive_scores`."""
    return np.asarray(1.0 - _checked(probabilities))


def class_sets(scores: FloatArray, thresholds: FloatArray | float, probabilities: FloatArray) -> BoolArray:
    """Return which classes are in the set of each row, [B, C].

    These are the classes with a score at most the threshold: one threshold for all classes, or one each, [C]. An empty
    set gets the most probable class. This cannot reduce the coverage.
    """
    found = np.asarray(scores <= thresholds)
    empty = np.flatnonzero(~found.any(axis=1))
    found[empty, np.argmax(probabilities[empty], axis=1)] = True
    return found


def missed_bound(rows: int, coverage: float, delta: float) -> float:
    """Return the largest share of new rows that a threshold of `rows` scores misses, with probability 1 - delta.

    The probability is over the rows that chose the threshold. The true share has a beta distribution, or is smaller if
    scores are equal. The result is 0 if the rows are too few for a threshold: then every class is in the set.
    """
    if not (rows >= 0 and 0.0 < coverage < 1.0 and 0.0 < delta < 1.0):
        raise ValueError(f"rows={rows}, coverage={coverage}, delta={delta}: no such bound")
    rank = quantile_rank(rows, coverage)
    return float(beta.ppf(1.0 - delta, rows + 1 - rank, rank)) if rank <= rows else 0.0


@dataclass(frozen=True, eq=False)
class ClassCalibration:
    """Thresholds of sets of classes.

    Attributes:
        marginal: threshold of adaptive scores, for all rows together. Infinite if the rows are too few.
        each: thresholds of label scores, [C]. Infinite for a class with too few rows.
    """

    marginal: float
    each: FloatArray

    @classmethod
    def fit(
        cls, probabilities: FloatArray, truth: IntArray, u: FloatArray, coverage: float, lost: BoolArray | None = None
    ) -> ClassCalibration:
        """Return the thresholds from rows that no model was trained on.

        Args:
            probabilities: class probabilities of these rows, [n, C].
            truth: classes of these rows, 0 to C - 1, [n].
            u: numbers for the adaptive scores, [n].
            coverage: coverage of the sets, in (0, 1). It is also the share of each class' rows that its threshold does
                not miss.
            lost: mask of rows with a set that counts as wrong in any case, [n].
        """
        rows = np.arange(len(truth))
        worst = np.zeros(len(truth)) if lost is None else np.where(lost, np.inf, 0.0)
        adaptive = adaptive_scores(probabilities, u)[rows, truth] + worst
        each = label_scores(probabilities)[rows, truth] + worst
        return cls(split_radius(adaptive, coverage), split_radii(each, truth, probabilities.shape[1], coverage))


def _checked(probabilities: FloatArray) -> FloatArray:
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or not ((p >= 0.0) & (p <= 1.0 + 1e-9)).all():
        raise ValueError(f"probabilities [B, C] in [0, 1] are needed, got {p.shape}")
    return np.minimum(p, 1.0)
