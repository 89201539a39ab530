"""What every bound over boxes takes and returns.

Equation: Blaas et al. 2020, Eq. (7), Eq. (8)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpsuite.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class BoxBounds:
    """Bounds over B boxes that hold for every point of each; arrays [B] unless said.

    Attributes:
        mean_low: lower bound of the latent mean.
        mean_high: upper bound of the latent mean.
        variance_low: lower bound of the latent variance, >= 0.
        variance_high: upper bound of the latent variance.
        low: lower bound of the score, which fixes the class probability (`BoundingFunction.to_probability`).
        high: upper bound of the score.
        centre: the score at the box's centre, up to rounding: a proposal, not a bound; NaN if it could not be
            computed.
        split_score: [B, d], how much each free input adds to the width of the bound; zero for zero width.
    """

    mean_low: FloatArray
    mean_high: FloatArray
    variance_low: FloatArray
    variance_high: FloatArray
    low: FloatArray
    high: FloatArray
    centre: FloatArray
    split_score: FloatArray


class BoundingFunction(Protocol):
    """Bounds the score over boxes of the free inputs, the others fixed."""

    @property
    def name(self) -> str:
        """Name of the bound, for certificates."""

    @property
    def version(self) -> int:
        """Version of the bound's formulas, for certificates."""

    @property
    def dims(self) -> IntArray:
        """Indices of the free inputs, [d]."""

    def bounds(self, lo: FloatArray, hi: FloatArray) -> BoxBounds:
        """Bound over the boxes lo[b] <= x_free <= hi[b]; lo and hi [B, d] in the units of X."""

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B, d] in the units of X."""

    def to_probability(self, score: FloatArray) -> FloatArray:
        """Return the class probability of a score, increasing; see `outward_probability` for safe ends."""

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return class probabilities of score bounds, rounded outwards; NaN gives 0 and 1."""


def checked_boxes(lo: FloatArray, hi: FloatArray, n_free: int) -> tuple[FloatArray, FloatArray]:
    """Return lo and hi as float64 arrays [B, d].

    Raises:
        ValueError: if a shape is wrong or lo > hi somewhere. NaN is let through and gives trivial bounds.
    """
    low, high = np.asarray(lo, dtype=np.float64), np.asarray(hi, dtype=np.float64)
    if low.ndim != 2 or low.shape != high.shape or low.shape[1] != n_free:
        raise ValueError(f"boxes of shapes {low.shape} and {high.shape}; needed: [B, {n_free}] twice")
    if np.any(low > high):
        raise ValueError("a box has a lower end above its upper end")
    return low, high


def trivial_where_invalid(bounds: BoxBounds) -> BoxBounds:
    """Replace NaN, and intervals that rounding turned inside out, by bounds that say nothing."""
    mean_low, mean_high = _safe_interval(bounds.mean_low, bounds.mean_high, -np.inf)
    variance_low, variance_high = _safe_interval(bounds.variance_low, bounds.variance_high, 0.0)
    low, high = _safe_interval(bounds.low, bounds.high, -np.inf)
    return BoxBounds(
        mean_low,
        mean_high,
        np.maximum(variance_low, 0.0),
        variance_high,
        low,
        high,
        bounds.centre,
        np.where(np.isnan(bounds.split_score), 0.0, bounds.split_score),
    )


def _safe_interval(low: FloatArray, high: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
    valid = low <= high  # false for NaN
    return np.where(valid, low, least), np.where(valid, high, np.inf)
