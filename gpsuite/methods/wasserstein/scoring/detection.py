"""Scores of telling two samples apart by a number: out-of-distribution inputs by their uncertainty. No TensorFlow.

Equation: Hanley & McNeil 1982
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from gpsuite.arrays import FloatArray


def auroc(inside: FloatArray, outside: FloatArray) -> float:
    """Return the probability that an outside score exceeds an inside one, ties counting one half.

    Args:
        inside: uncertainties of in-distribution inputs [N].
        outside: uncertainties of out-of-distribution inputs, the positive class [N'].

    Raises:
        ValueError: if a sample is empty or not a finite vector.
    """
    inside, outside = _checked(inside, outside)
    ranks = rankdata(np.concatenate([inside, outside]))[len(inside) :]
    pairs = len(inside) * len(outside)
    return float((ranks.sum() - len(outside) * (len(outside) + 1) / 2.0) / pairs)


def average_precision(inside: FloatArray, outside: FloatArray) -> float:
    """Return the area under the precision-recall curve (AUPR), outside the positive class.

    The sum of precision times the gain of recall over falling thresholds, ties together, as scikit-learn's.

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
    """Return the share of outside inputs taken for inside ones where at least 95 % of the inside ones are (FPR95).

    The threshold is the smallest inside score that admits 95 % of them; a score equal to it is admitted.

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
