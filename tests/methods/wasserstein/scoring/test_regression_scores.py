"""Scores of Gaussian predictions against integrals, simulation and their own optimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from gpsuite.methods.wasserstein.scoring import (
    crps,
    interval_coverage,
    interval_half_widths,
    negative_log_density,
    rmse,
)


@pytest.mark.parametrize(("y", "mean", "variance"), [(0.3, 1.0, 0.5), (-2.0, 1.0, 4.0), (1.0, 1.0, 1e-4)])
def test_crps_is_the_integral_of_the_squared_gap(y: float, mean: float, variance: float) -> None:
    s = np.sqrt(variance)
    below = quad(lambda t: norm.cdf(t, mean, s) ** 2, min(y, mean) - 12 * s, y, points=[mean], epsabs=1e-12)[
        0
    ]
    above = quad(lambda t: norm.sf(t, mean, s) ** 2, y, max(y, mean) + 12 * s, points=[mean], epsabs=1e-12)[0]
    found = crps(np.array([y]), np.array([mean]), np.array([variance]))
    assert found == pytest.approx(below + above, rel=1e-7)


def test_density_and_error_point_by_point() -> None:
    rng = np.random.default_rng(0)
    y, mean, variance = rng.standard_normal(9), rng.standard_normal(9), rng.uniform(0.1, 2.0, 9)
    expected = -norm.logpdf(y, mean, np.sqrt(variance)).mean()
    assert negative_log_density(y, mean, variance) == pytest.approx(expected, rel=1e-12)
    assert rmse(y, mean) == pytest.approx(np.linalg.norm(y - mean) / 3.0)


def test_the_true_distribution_scores_best() -> None:
    y = np.random.default_rng(1).standard_normal(4000)
    one = np.ones(4000)
    for score in (negative_log_density, crps):
        right = score(y, 0.0 * one, one)
        assert right < score(y, 0.3 * one, one)
        assert right < score(y, 0.0 * one, 2.0 * one)
        assert right < score(y, 0.0 * one, 0.5 * one)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_central_intervals_hold_their_level(level: float) -> None:
    y = np.random.default_rng(2).standard_normal(20_000) * 3.0 + 1.0
    mean, variance = np.full(20_000, 1.0), np.full(20_000, 9.0)
    assert interval_coverage(y, mean, variance, level) == pytest.approx(level, abs=0.01)
    half = interval_half_widths(variance[:1], level)[0]
    assert norm.cdf(half / 3.0) - norm.cdf(-half / 3.0) == pytest.approx(level)


def test_impossible_predictions_are_refused() -> None:
    one = np.ones(2)
    for score in (negative_log_density, crps):
        with pytest.raises(ValueError, match="positive"):
            score(one, one, 0.0 * one)
        with pytest.raises(ValueError, match="shapes differ"):
            score(one, one, np.ones((2, 1)))
        with pytest.raises(ValueError, match="finite"):
            score(one * np.nan, one, one)
    with pytest.raises(ValueError, match="level=1"):
        interval_coverage(one, one, one, 1.0)


def test_a_target_at_the_end_of_its_interval_is_covered() -> None:
    half = interval_half_widths(np.ones(1), 0.9)
    assert interval_coverage(half, np.zeros(1), np.ones(1), 0.9) == 1.0
