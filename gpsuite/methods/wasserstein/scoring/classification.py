"""Scores of predicted class probabilities. Logarithms are natural; every mean is over points. No TensorFlow.

Equation: Guo et al. 2017, Eq. (3)
Equation: Brier 1950
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.models.classification.robust_max import checked_labels

BINS = 15
"""Bins of the calibration error where nothing else is said, as Guo et al. 2017."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence against accuracy in equal-width bins (b / B, (b + 1) / B] of the largest probability.

    Attributes:
        upper: right ends of the bins [B].
        counts: points in each [B].
        confidence: mean largest probability in each; NaN where empty [B].
        accuracy: share of right predictions in each; NaN where empty [B].
    """

    upper: FloatArray
    counts: IntArray
    confidence: FloatArray
    accuracy: FloatArray

    @property
    def error(self) -> float:
        """Expected calibration error: sum over bins of n_b / n |accuracy - confidence|, in [0, 1]."""
        filled = self.counts > 0
        gaps = np.abs(self.accuracy[filled] - self.confidence[filled])
        return float(self.counts[filled] @ gaps / self.counts.sum())


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Error rate among the most certain points, against the share of points that are predicted at all.

    Attributes:
        coverage: 1/n, ..., 1 [N].
        risk: error rate among that share, the least uncertain first; points of equal uncertainty count alike [N].
    """

    coverage: FloatArray
    risk: FloatArray

    @property
    def area(self) -> float:
        """Mean risk over all coverages (AURC), in [0, 1]."""
        return float(self.risk.mean())


def accuracy(probabilities: FloatArray, labels: IntArray) -> float:
    """Return the share of points whose most probable class is the label."""
    p, y = checked_predictions(probabilities, labels)
    return float(np.mean(p.argmax(axis=1) == y))


def negative_log_likelihood(probabilities: FloatArray, labels: IntArray) -> float:
    """Return the mean of -log p_y in nats; infinite if a label had probability 0."""
    p, y = checked_predictions(probabilities, labels)
    with np.errstate(divide="ignore"):
        return float(np.mean(-np.log(p[np.arange(len(y)), y])))


def brier_score(probabilities: FloatArray, labels: IntArray) -> float:
    """Return the mean of sum_j (p_j - [y = j])^2, in [0, 2]."""
    p, y = checked_predictions(probabilities, labels)
    return float(np.mean(np.sum((p - np.eye(p.shape[1])[y]) ** 2, axis=1)))


def reliability(probabilities: FloatArray, labels: IntArray, bins: int = BINS) -> Reliability:
    """Return confidence and accuracy in equal-width bins of the largest probability.

    Raises:
        ValueError: if predictions and labels do not fit or there is no bin.
    """
    p, y = checked_predictions(probabilities, labels)
    if bins < 1:
        raise ValueError(f"bins={bins}: at least 1 is needed")
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    index = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    counts, sums, hits = (np.bincount(index, values, bins) for values in (None, confidence, right))
    with np.errstate(invalid="ignore"):
        return Reliability(np.arange(1, bins + 1) / bins, counts, sums / counts, hits / counts)


def calibration_error(probabilities: FloatArray, labels: IntArray, bins: int = BINS) -> float:
    """Return the expected calibration error with equal-width bins (see `Reliability`)."""
    return reliability(probabilities, labels, bins).error


def overconfidence(probabilities: FloatArray, labels: IntArray) -> float:
    """Return mean confidence minus accuracy; positive where predictions promise too much."""
    p, y = checked_predictions(probabilities, labels)
    return float(p.max(axis=1).mean()) - accuracy(p, y)


def entropy(probabilities: FloatArray) -> FloatArray:
    """Return the entropy over the last axis in nats: of mean predictions, their total uncertainty."""
    return np.asarray(entr(probabilities).sum(axis=-1))


def mutual_information(members: FloatArray) -> FloatArray:
    """Return the knowledge uncertainty of an ensemble [N], in nats: total minus expected data uncertainty.

    Args:
        members: probabilities of each member [S, N, C].
    """
    return np.asarray(entropy(members.mean(axis=0)) - entropy(members).mean(axis=0))


def risk_coverage(uncertainty: FloatArray, wrong: BoolArray) -> RiskCoverage:
    """Return the error rate among the most certain points for every share of them.

    Within a group of equal uncertainty the errors are spread evenly, so that the order of points does not matter.

    Args:
        uncertainty: larger is less certain [N].
        wrong: whether each prediction is wrong [N].

    Raises:
        ValueError: if shapes disagree, there is no point or an uncertainty is not finite.
    """
    uncertainty, errs = np.asarray(uncertainty, np.float64), np.asarray(wrong, np.float64)
    if uncertainty.ndim != 1 or uncertainty.shape != errs.shape or uncertainty.size == 0:
        raise ValueError("uncertainty and wrong must be vectors of the same length, at least 1")
    if not np.isfinite(uncertainty).all():
        raise ValueError("uncertainties must be finite")
    _, group, sizes = np.unique(uncertainty, return_inverse=True, return_counts=True)
    shares = np.bincount(group, errs) / sizes
    errors = np.cumsum(np.repeat(shares, sizes))
    counts = np.arange(1, len(errs) + 1)
    return RiskCoverage(counts / len(errs), errors / counts)


def checked_predictions(probabilities: FloatArray, labels: IntArray) -> tuple[FloatArray, IntArray]:
    """Return probabilities [N, C] and integer labels [N].

    Raises:
        ValueError: if shapes disagree, there is no point, a label is not a class, or a row is not a distribution
            (within 1e-6).
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or 0 in p.shape:
        raise ValueError(f"probabilities [N, C] are needed, got shape {p.shape}")
    if not (p >= 0.0).all() or not (np.abs(p.sum(axis=1) - 1.0) <= 1e-6).all():
        raise ValueError("each row of probabilities must be non-negative and sum to 1")
    return p, checked_labels(labels, len(p), p.shape[1])
