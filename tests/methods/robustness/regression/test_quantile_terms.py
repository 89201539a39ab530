"""Every term of a quantile's bounds, what a budget gives each search, and what an unknown end says."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness import regression as module
from gpsuite.methods.robustness.class_probability import LatentRanges
from gpsuite.methods.robustness.level_bound.level_search import level_search
from gpsuite.methods.robustness.level_bound.posterior_slice import posterior_slice
from gpsuite.methods.robustness.regression import QuantileLevel, QuantileRange, QuantileScore, negated, prediction_range
from gpsuite.methods.robustness.rounding import SHORT_SUM
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import box
from tests.methods.robustness.made_up_posteriors import random_posterior

NOISE = 0.25


def one(value: float) -> Any:
    return np.array([value])


@pytest.mark.parametrize("z", [-3.0, 3.0])
@pytest.mark.parametrize(("mean", "variance"), [(1e6, 1e-3), (-1e6, 1e-3), (1e-3, 1e12)])
def test_corners_allow_for_the_rounding_of_the_larger_term(z: float, mean: float, variance: float) -> None:
    score = QuantileScore(z, NOISE)
    means, variances = sorted((mean, 0.9 * mean)), (0.8 * variance, variance)
    values = (means[0], means[1], *variances)
    names = ("mean_low", "mean_high", "variance_low", "variance_high")
    ranges = LatentRanges(
        mean=one(mean), variance=one(variance), **{n: one(v) for n, v in zip(names, values, strict=True)}
    )
    low, high = score.separate(ranges)
    lowest = means[0] + z * np.sqrt(variances[0 if z > 0 else 1] + NOISE)
    highest = means[1] + z * np.sqrt(variances[1 if z > 0 else 0] + NOISE)
    slack = SHORT_SUM * (abs(mean) + 3.0 * np.sqrt(variance + NOISE))
    np.testing.assert_allclose([lowest - low[0], high[0] - highest], [slack, slack], rtol=0.1)


@pytest.mark.parametrize("z", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize(("G", "slope"), [(1e6, 0.0), (-1e6, 0.0), (0.0, 1e6), (0.0, -1e6), (0.0, 0.0)])
def test_a_bound_allows_for_the_rounding_of_its_largest_term(z: float, G: float, slope: float) -> None:
    low, high = (2.0, 3.0) if slope or G else (2e12, 3e12)
    found = QuantileLevel(QuantileScore(z, NOISE)).bound(one(G), one(slope), one(low), one(high))
    exact = max(G + slope * v + z * np.sqrt(v + NOISE) for v in (low, high))
    slack = SHORT_SUM * (abs(G) + abs(slope) * (high + NOISE) + abs(z) * np.sqrt(high + NOISE))
    np.testing.assert_allclose(found[0] - exact, slack, rtol=0.2)


def test_unknown_scores_are_no_bound() -> None:
    low, high = QuantileScore(1.0, NOISE).outward_probability(
        np.array([np.nan, 1.0, -np.inf]), np.array([np.nan, 2.0, np.inf])
    )
    assert low.tolist() == [-np.inf, 1.0, -np.inf] and high.tolist() == [np.inf, 2.0, np.inf]


def test_the_derivatives_are_those_of_the_quantile() -> None:
    score, step = QuantileScore(-1.3, NOISE), 1e-4
    level, mean, v = QuantileLevel(score), one(0.4), one(0.7)
    by_mean, by_variance, mixed, twice = level.derivatives(mean, v)
    up, at, down = (score.value(mean, v + s) for s in (step, 0.0, -step))
    assert by_mean[0] == 1.0 and mixed[0] == 0.0
    np.testing.assert_allclose(by_variance, (up - down) / (2.0 * step), rtol=1e-6)
    np.testing.assert_allclose(twice, (up - 2.0 * at + down) / step**2, rtol=1e-5)


def test_edges_are_equally_far_apart_in_the_spread() -> None:
    edges = QuantileLevel(QuantileScore(1.0, NOISE)).edges(one(0.1), one(4.0), 6)
    spread = np.sqrt(np.ravel(edges) + NOISE)
    np.testing.assert_allclose(np.diff(spread), (spread[-1] - spread[0]) / 6.0, rtol=1e-9)
    np.testing.assert_allclose(np.ravel(edges)[[0, -1]], [0.1, 4.0], rtol=1e-12)


@pytest.mark.parametrize("z", [-1.0, 0.0, 1.0])
def test_only_lower_quantiles_have_concave_level_sets(z: float) -> None:
    level = QuantileLevel(QuantileScore(z, NOISE))
    assert level.is_concave(np.zeros(3)).tolist() == [z < 0.0] * 3
    assert level.threshold(0.3) == 0.3


def searched(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[QuantileRange]]:
    seen: list[Any] = []

    def spy(bound: Any, region: Any, tolerance: float, own: Budget, **named: Any) -> Extremum:
        found = level_search(bound, region, tolerance, own, **named)
        seen.append((own.seconds, own.boxes, own.spent_boxes, found.boxes, own.observer))
        return found

    monkeypatch.setattr(module, "level_search", spy)
    posterior = random_posterior(np.random.default_rng(0), "squared_exponential", "probit", 12, 2, False)
    region = box(posterior.X[0], 1e-3)
    return seen, prediction_range(posterior, NOISE, region, (0.5, 0.9), 1e-4, budget)


def test_every_search_has_an_equal_share_of_the_boxes_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, found = searched(Budget(boxes=1010, spent_boxes=10), monkeypatch)
    left = 1000
    for searches, (seconds, boxes, _, spent, _) in zip((4, 3, 2, 1), seen, strict=True):
        assert seconds is None and boxes == left // searches
        left -= spent
    assert sum(each.boxes for each in found) == sum(each[3] for each in seen)


def test_every_search_has_an_equal_share_of_the_seconds_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[Budget] = []
    seen, _ = searched(Budget(seconds=1e6, started=time.monotonic() - 2e5, observer=watched.append), monkeypatch)
    for searches, (seconds, boxes, _, _, observer) in zip((4, 3, 2, 1), seen, strict=True):
        assert boxes is None and seconds == pytest.approx(8e5 / searches, abs=200.0)
        assert observer is not None
    late, _ = searched(Budget(seconds=1.0, started=time.monotonic() - 9.0), monkeypatch)
    assert all(each[0] == 0.0 for each in late)


def test_the_negated_slice_is_that_of_minus_the_function() -> None:
    posterior = random_posterior(np.random.default_rng(0), "squared_exponential", "probit", 12, 2, False)
    form = posterior_slice(posterior, posterior.X[0], np.arange(2))
    other = negated(form)
    assert (other.floor, other.ceiling) == (-form.ceiling, -form.floor)
    points = posterior.X[:3]
    np.testing.assert_array_equal(other.moments(points)[0], -form.moments(points)[0])
    np.testing.assert_array_equal(other.moments(points)[1], form.moments(points)[1])


def test_the_largest_change_is_to_the_farther_end() -> None:
    found = QuantileRange(0.5, 1.0, -2.0, 0.0, 1.5, 2.0, None, None, "closed", 3, None, None)  # type: ignore[arg-type]
    assert found.largest_change == 3.0
    assert replace(found, highest_proved=5.0).largest_change == 4.0
