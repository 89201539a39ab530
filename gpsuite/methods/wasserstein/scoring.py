"""Scores of predictions, without TensorFlow. Logarithms are natural. Every mean is over points.

Equation: Guo et al. 2017, Eq. (3)
Equation: Brier 1950
Equation: Hanley & McNeil 1982
Equation: Gneiting & Raftery 2007, Eq. (21)
Equation: Guo et al. 2017, Sec. 4.2
Equation: derived, tempering of Gaussian predictions
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import entr, log_softmax, ndtr, ndtri, softmax
from scipy.stats import rankdata

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.models.classification.robust_max import checked_labels

# Default number of bins of the calibration error, as in Guo et al. 2017.
BINS = 15
TEMPERATURES = (1e-3, 1e3)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence against accuracy in equal-width bins (b / B, (b + 1) / B] of the largest probability.

    Attributes:
        upper: right ends of the bins [B].
        confidence: mean largest probability in each. NaN if empty [B].
        accuracy: share of right predictions in each. NaN if empty [B].
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
    """Error rate among the most certain points, by the share of points that are predicted.

    Attributes:
        coverage: 1/n, ..., 1 [N].
        risk: error rate among that share, the least uncertain first [N]. Points of equal uncertainty count equally.
    """

    coverage: FloatArray
    risk: FloatArray

    @property
    def area(self) -> float:
        """Mean risk over all coverages (AURC), in [0, 1]."""
        return float(self.risk.mean())


def accuracy(probabilities: FloatArray, labels: IntArray) -> float:
    p, y = checked_predictions(probabilities, labels)
    return float(np.mean(p.argmax(axis=1) == y))


def negative_log_likelihood(probabilities: FloatArray, labels: IntArray) -> float:
    """Return the mean of -log p_y in nats. Infinite if a label had probability 0."""
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
    return reliability(probabilities, labels, bins).error


def overconfidence(probabilities: FloatArray, labels: IntArray) -> float:
    """Return mean confidence minus accuracy. It is positive if predictions promise too much."""
    p, y = checked_predictions(probabilities, labels)
    return float(p.max(axis=1).mean()) - accuracy(p, y)


def entropy(probabilities: FloatArray) -> FloatArray:
    """Return the entropy over the last axis in nats. For mean predictions this is the total uncertainty."""
    return np.asarray(entr(probabilities).sum(axis=-1))


def mutual_information(members: FloatArray) -> FloatArray:
    """Return the knowledge uncertainty of an ensemble [N], in nats: total minus expected data uncertainty.

    Args:
        members: probabilities of each member [S, N, C].
    """
    return np.asarray(entropy(members.mean(axis=0)) - entropy(members).mean(axis=0))


def risk_coverage(uncertainty: FloatArray, wrong: BoolArray) -> RiskCoverage:
    """Return the error rate among the most certain points for every share of points, from uncertainties and errors [N].

    Within a group of equal uncertainty the errors are spread evenly, so the order of points does not matter.

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


def auroc(inside: FloatArray, outside: FloatArray) -> float:
    """Return the probability that an outside score exceeds an inside one, ties counting one half.

    Raises:
        ValueError: if a sample is empty or not a finite vector.
    """
    inside, outside = _checked(inside, outside)
    ranks = rankdata(np.concatenate([inside, outside]))[len(inside) :]
    pairs = len(inside) * len(outside)
    return float((ranks.sum() - len(outside) * (len(outside) + 1) / 2.0) / pairs)


def average_precision(inside: FloatArray, outside: FloatArray) -> float:
    """Return the area under the precision-recall curve (AUPR). Outside inputs are the positive class.

    The area is the sum of precision times the gain of recall over falling thresholds, with ties together, as in
    scikit-learn.

    Raises:
        ValueError: as `auroc`.
    """
    inside, outside = _checked(inside, outside)
    thresholds = np.unique(outside)[::-1]
    true = len(outside) - np.searchsorted(np.sort(outside), thresholds, side="left")
    false = len(inside) - np.searchsorted(np.sort(inside), thresholds, side="left")
    gains = np.diff(true / len(outside), prepend=0.0)
    return float(gains @ (true / (true + false)))


def false_positives_at_95(inside: FloatArray, outside: FloatArray) -> float:
    """Return the share of outside inputs that are admitted when at least 95 % of the inside inputs are (FPR95).

    The threshold is the smallest inside score that admits 95 % of the inside scores. A score equal to it is admitted.

    Raises:
        ValueError: as `auroc`.
    """
    inside, outside = _checked(inside, outside)
    needed = -(-95 * len(inside) // 100)
    return float(np.mean(outside <= np.sort(inside)[needed - 1]))


def _checked(inside: FloatArray, outside: FloatArray) -> tuple[FloatArray, FloatArray]:
    samples = np.asarray(inside, np.float64), np.asarray(outside, np.float64)
    for name, sample in zip(("inside", "outside"), samples, strict=True):
        if sample.ndim != 1 or sample.size == 0 or not np.isfinite(sample).all():
            raise ValueError(f"{name} scores must be a finite vector, at least one, got shape {sample.shape}")
    return samples


def rmse(y: FloatArray, mean: FloatArray) -> float:
    return float(np.sqrt(np.mean((np.asarray(y) - mean) ** 2)))


def negative_log_density(y: FloatArray, mean: FloatArray, variance: FloatArray) -> float:
    """Return the mean of -log N(y; mean, variance) in nats.

    Raises:
        ValueError: if shapes disagree, a value is not finite or a variance is not positive.
    """
    y, mean, variance = checked_gaussians(y, mean, variance)
    return float(np.mean(0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)))


def tempered_log_density(y: FloatArray, mean: FloatArray, variance: FloatArray) -> float:
    """Return the least mean of -log N(y; mean, alpha variance) over alpha, in nats: at `variance_factor`.

    Predictions without any error count as if alpha were the smallest normal number.

    Raises:
        ValueError: as `negative_log_density`.

    Equation: derived, tempering of Gaussian predictions
    """
    y, mean, variance = checked_gaussians(y, mean, variance)
    factor = max(float(np.mean((y - mean) ** 2 / variance)), float(np.finfo(np.float64).tiny))
    return 0.5 * (float(np.mean(np.log(2.0 * np.pi * variance))) + math.log(factor) + 1.0)


def crps(y: FloatArray, mean: FloatArray, variance: FloatArray) -> float:
    """Return the mean continuous ranked probability score, in units of y (Gneiting & Raftery 2007, Eq. 21).

    Raises:
        ValueError: as `negative_log_density`.
    """
    y, mean, variance = checked_gaussians(y, mean, variance)
    s = np.sqrt(variance)
    z = (y - mean) / s
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return float(np.mean(s * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))))


def interval_coverage(y: FloatArray, mean: FloatArray, variance: FloatArray, level: float) -> float:
    """Return the share of targets within the central intervals of probability `level`.

    Raises:
        ValueError: as `negative_log_density`, or if the level is not in (0, 1).
    """
    y, mean, variance = checked_gaussians(y, mean, variance)
    return float(np.mean(np.abs(y - mean) <= interval_half_widths(variance, level)))


def interval_half_widths(variance: FloatArray, level: float) -> FloatArray:
    """Return half the widths of the central intervals of probability `level`, in units of y.

    Raises:
        ValueError: if the level is not in (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level}: must be in (0, 1)")
    return np.asarray(ndtri(0.5 * (1.0 + level)) * np.sqrt(variance))


def checked_gaussians(
    y: FloatArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return targets, means and variances as float64 arrays of one shape.

    Raises:
        ValueError: if shapes disagree, there is no point, a value is not finite or a variance is not positive.
    """
    y, mean, variance = (np.asarray(part, dtype=np.float64) for part in (y, mean, variance))
    if y.shape != mean.shape or y.shape != variance.shape or y.size == 0:
        raise ValueError(f"shapes differ or are empty: {y.shape}, {mean.shape}, {variance.shape}")
    if not (np.isfinite(y).all() and np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise ValueError("targets, means and variances must be finite")
    if not (variance > 0.0).all():
        raise ValueError("variances must be positive")
    return y, mean, variance


class ExactPredictionsError(ValueError):
    """Raised if every validation target was predicted exactly: a smaller variance is always better."""


def variance_factor(y: FloatArray, mean: FloatArray, variance: FloatArray) -> float:
    """Return alpha with the least negative log density of N(mean, alpha variance): mean((y - mean)^2 / variance).

    Raises:
        ValueError: if shapes disagree, a value is not finite or a variance is not positive.
        ExactPredictionsError: if all errors are 0.
    """
    y, mean, variance = checked_gaussians(y, mean, variance)
    alpha = float(np.mean((y - mean) ** 2 / variance))
    if not alpha > 0.0:
        raise ExactPredictionsError("every prediction is exact: no factor above 0 is best")
    return alpha


def temperature(logits: FloatArray, labels: IntArray) -> float:
    """Return T in `TEMPERATURES` with the least mean of -log softmax(logits / T)_y (Guo et al. 2017).

    The loss is convex in 1 / T: the search over it finds the minimum.

    Raises:
        ValueError: if labels do not fit or a logit is not finite.
    """
    logits = np.asarray(logits, dtype=np.float64)
    y = checked_labels(labels, *logits.shape)
    if not np.isfinite(logits).all():
        raise ValueError("logits must be finite")

    def loss(log_inverse: float) -> float:
        return -float(np.mean(log_softmax(np.exp(log_inverse) * logits, axis=1)[np.arange(len(y)), y]))

    low, high = (-np.log(t) for t in reversed(TEMPERATURES))
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-8})
    return float(np.exp(-found.x))


def tempered(logits: FloatArray, T: float) -> FloatArray:
    return np.asarray(softmax(logits / T, axis=1))
