"""Bounds over boxes for several classes: sound on random posteriors, sharp on small boxes."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.multiclass.softmax_bound import SoftmaxBound
from gpsuite.models.config import KERNEL_NAMES
from tests.models.softmax_problems import random_softmax_posterior


def study(seed: int, C: int, kernel: str, models: int, boxes: int, points: int) -> tuple[int, int]:
    """Return how many of so many points lie outside the bounds of a class probability or a margin."""
    rng = np.random.default_rng([seed, C])
    outside = tried = 0
    for _ in range(models):
        n, d = int(rng.integers(1, 15)), int(rng.integers(1, 5))
        posterior = random_softmax_posterior(rng, kernel, C, n, d, (-2.0, 1.5 if C < 5 else 0.5))
        scale = posterior.lengthscales
        bound = SoftmaxBound(posterior, posterior.X[0] + 0.3 * rng.standard_normal(d) * scale, np.arange(d))
        centre = posterior.X[rng.integers(n, size=boxes)] + 0.5 * rng.standard_normal((boxes, d)) * scale
        half = 10.0 ** rng.uniform(-6.0, 0.3, (boxes, 1)) * rng.random((boxes, d)) * scale / np.sqrt(d)
        half[rng.random((boxes, d)) < 0.1] = 0.0
        lo, hi = centre - half, centre + half
        local = bound.over(lo, hi)
        own = int(rng.integers(C))
        rival = (own + 1 + int(rng.integers(C - 1))) % C
        ends, margin = bound.class_ends(local, own), bound.margin_ends(local, own, rival)
        unit = rng.uniform(-1.0, 1.0, (points, boxes, d))
        unit[::2] = np.sign(unit[::2])
        x = np.clip(centre + unit * half, lo, hi)
        moments = posterior.moments(x.reshape(-1, d))
        p = moments.mean.reshape(points, boxes, C)
        error = moments.error.reshape(points, boxes) + 1e-11
        apart = p[..., own] - p[..., rival]
        bad = (p[..., own] < ends.low - error) | (p[..., own] > ends.high + error)
        bad |= (apart < margin.low - 2.0 * error) | (apart > margin.high + 2.0 * error)
        outside, tried = outside + int(bad.sum()), tried + bad.size
    return outside, tried


@pytest.mark.guarantee
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("C", [2, 3])
def test_no_point_lies_outside(C: int, kernel: str) -> None:
    assert study(1, C, kernel, models=8, boxes=10, points=20) == (0, 1600)


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("C", range(2, 11))
def test_no_point_of_many_lies_outside(C: int) -> None:
    """11,200 points for every number of classes and a third of them for each kernel: 100,800 in all."""
    counts = [
        study(2, C, kernel, models=16, boxes=10, points=points)
        for kernel, points in zip(KERNEL_NAMES, (24, 24, 22), strict=True)
    ]
    assert [sum(column) for column in zip(*counts, strict=True)] == [0, 11_200]


def test_small_boxes_have_small_ranges() -> None:
    posterior = random_softmax_posterior(np.random.default_rng(4), "squared_exponential", 3, 12, 2, (0.0, 0.5))
    bound = SoftmaxBound(posterior, posterior.X[0], np.arange(2))
    point, widths = posterior.X[:1] + 0.1, []
    for radius in (0.1, 0.01, 0.001, 0.0):
        ends = bound.class_ends(bound.over(point - radius, point + radius), 1)
        assert ends.low[0] <= ends.centre[0] <= ends.high[0]
        widths.append(ends.high[0] - ends.low[0])
    assert widths[1] < 0.15 * widths[0] and widths[2] < 0.15 * widths[1]
    assert widths[3] < 1e-8


def test_points_are_known_up_to_rounding_and_the_cubature() -> None:
    posterior = random_softmax_posterior(np.random.default_rng(5), "matern52", 4, 10, 3, (0.0, 1.0))
    bound = SoftmaxBound(posterior, posterior.X[0], np.arange(3))
    points = posterior.X[:6] + 0.2
    moments = posterior.moments(points)
    for own in range(4):
        low, high = bound.class_of(bound.at(points), own)
        assert np.all(low <= moments.mean[:, own] + moments.error)
        assert np.all(high >= moments.mean[:, own] - moments.error) and np.all(high - low < 1e-7)
        rival = (own + 1) % 4
        low, high = bound.margin_of(bound.at(points), own, rival)
        apart = moments.mean[:, own] - moments.mean[:, rival]
        assert np.all((low <= apart + 1e-8) & (apart - 1e-8 <= high) & (high - low < 1e-6))


def test_what_is_not_finite_says_nothing() -> None:
    posterior = random_softmax_posterior(np.random.default_rng(6), "squared_exponential", 3, 5, 2, (0.0, 1.0))
    bound = SoftmaxBound(posterior, posterior.X[0], np.arange(2))
    wide = np.array([[np.nan, 0.0], [-1e200, -1e200]])
    local = bound.over(wide, np.array([[np.nan, 1.0], [1e200, 1e200]]))
    ends, margin = bound.class_ends(local, 0), bound.margin_ends(local, 0, 1)
    assert ends.low[0] == 0.0 and ends.high[0] == 1.0
    assert margin.low[0] == -1.0 and margin.high[0] == 1.0
    assert 0.0 <= ends.low[1] <= ends.high[1] <= 1.0
