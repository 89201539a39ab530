"""The score over boxes: mean and variance combined before the quadratic is bounded, and separately."""

from __future__ import annotations

import numpy as np

from gpsuite.methods.robustness.box_bounds import BoxBounds, FloatArray
from gpsuite.methods.robustness.class_probability import LatentRanges, Score, ScoreExpansion
from gpsuite.methods.robustness.rkhs_taylor_mean import Boxes, QuadraticModel
from gpsuite.methods.robustness.rkhs_taylor_quadratic import quadratic_range, quadratic_size
from gpsuite.methods.robustness.rounding import short_sum


def score_bounds(score: Score, boxes: Boxes, mean: QuadraticModel, variance: QuadraticModel) -> BoxBounds:
    """Intersect the combined quadratic model of the score with the exact range over (mean, variance) rectangles."""
    ranges = LatentRanges(
        mean_low=mean.low,
        mean_high=mean.high,
        variance_low=variance.low,
        variance_high=variance.high,
        mean=mean.constant,
        variance=variance.constant,
    )
    expansion = score.expand(_around_centre(ranges))
    low, high = _combined(expansion, boxes, mean, variance)
    separate_low, separate_high = score.separate(ranges)
    return BoxBounds(
        mean_low=mean.low,
        mean_high=mean.high,
        variance_low=variance.low,
        variance_high=variance.high,
        low=np.fmax(low, separate_low),
        high=np.fmin(high, separate_high),
        centre=expansion.value,
        split_score=_split_score(expansion, boxes, mean, variance),
    )


def _around_centre(ranges: LatentRanges) -> LatentRanges:
    """Widen the rectangle to hold the point of expansion, which rounding may have left outside."""
    return LatentRanges(
        np.minimum(ranges.mean_low, ranges.mean),
        np.maximum(ranges.mean_high, ranges.mean),
        np.minimum(ranges.variance_low, ranges.variance),
        np.maximum(ranges.variance_high, ranges.variance),
        ranges.mean,
        ranges.variance,
    )


def _combined(
    expansion: ScoreExpansion, boxes: Boxes, mean: QuadraticModel, variance: QuadraticModel
) -> tuple[FloatArray, FloatArray]:
    first, second = expansion.d_mean, expansion.d_variance
    linear, matrix = _weighted(expansion, mean, variance)
    low, high = quadratic_range(linear, matrix, boxes.radius)
    rising, falling = np.maximum(second, 0.0), np.maximum(-second, 0.0)
    below = first * mean.below + rising * variance.below + falling * variance.above + expansion.remainder
    above = first * mean.above + rising * variance.above + falling * variance.below + expansion.remainder
    size = np.abs(expansion.value) + quadratic_size(linear, matrix, boxes.radius) + 1.0
    parts = quadratic_size(mean.linear, mean.matrix, boxes.radius) * first
    parts += quadratic_size(variance.linear, variance.matrix, boxes.radius) * np.abs(second)
    slack = short_sum(boxes.radius.shape[1]) * (size + parts + below + above)
    return expansion.value + low - below - slack, expansion.value + high + above + slack


def _weighted(
    expansion: ScoreExpansion, mean: QuadraticModel, variance: QuadraticModel
) -> tuple[FloatArray, FloatArray]:
    first, second = expansion.d_mean[:, None], expansion.d_variance[:, None]
    linear = first * mean.linear + second * variance.linear
    matrix = first[:, :, None] * mean.matrix + second[:, :, None] * variance.matrix
    return linear, matrix


def _split_score(
    expansion: ScoreExpansion, boxes: Boxes, mean: QuadraticModel, variance: QuadraticModel
) -> FloatArray:
    """Return the share of each input in the width: first and second order, and its part in the remainder."""
    linear, matrix = _weighted(expansion, mean, variance)
    radius = boxes.radius
    rest = mean.rest * expansion.d_mean / np.sqrt(2.0) + variance.rest * np.abs(expansion.d_variance)
    curved = np.abs(np.einsum("bjj->bj", matrix)) + (np.sqrt(boxes.square) * rest)[:, None]
    return np.asarray(np.abs(linear) * radius + curved * radius * radius)
