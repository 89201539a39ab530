"""Level functions: the largest score along a line in (mean, variance), and the slope that makes it sharp."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr

from gpsuite.methods.robustness.class_probability import ProbabilityScore, ProbitScore
from gpsuite.methods.robustness.level_bound import level as level_module
from gpsuite.methods.robustness.level_bound.level import Level, ProbabilityLevel, ProbitLevel, level_of
from gpsuite.models.classification.links import LINKS, Logistic
from tests.arrays import Array

NAMES = ("probit", "squeezed_probit", "logistic")


def lines(rng: np.random.Generator, count: int, level: Level) -> tuple[Array, Array, Array, Array]:
    """Return G, slope, low, high: half of the slopes for a level, half arbitrary, some intervals of no width."""
    low = 10.0 ** rng.uniform(-3.0, 1.5, count)
    high = low + rng.choice([0.0, 0.1, 1.0, 10.0], count) * rng.random(count)
    p = rng.uniform(0.02, 0.98, count)
    thresholds = np.array([level.threshold(float(each)) for each in p])
    slope = np.where(
        rng.random(count) < 0.5, level.slope(thresholds, low, high, 0.5 * (low + high)), rng.standard_normal(count)
    )
    return rng.standard_normal(count) * 2.0, slope, low, high


@pytest.mark.parametrize("name", NAMES)
def test_the_bound_is_the_largest_score_of_the_line(name: str) -> None:
    level = level_of(LINKS.get(name))
    G, slope, low, high = lines(np.random.default_rng(7), 60, level)
    bound = level.bound(G, slope, low, high)
    v = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 101)
    best = level.score.value(G[:, None] + slope[:, None] * v, v).max(axis=1)
    assert (best <= bound).all()
    # The grid of the logistic leaves a share of the squared step.
    slack = 1e-4 if name != "logistic" else 1e-3 * (1.0 + slope**2) * (high - low) ** 2 + 1e-9
    assert (bound <= best + slack).all()


@pytest.mark.parametrize("name", NAMES)
def test_at_its_threshold_the_line_lies_on_the_safe_side_of_the_level(name: str) -> None:
    """The line through the level's mean at both ends (or touching it in the middle) stays at the level, nearly."""
    level, rng = level_of(LINKS.get(name)), np.random.default_rng(8)
    for p in (0.1, 0.3, 0.5, 0.7, 0.95):
        T = level.threshold(p)
        low = rng.uniform(0.1, 2.0, 6)
        high = low + rng.uniform(0.0, 0.5, 6)
        middle = 0.5 * (low + high)
        slope = level.slope(np.array(T), low, high, middle)
        # The largest G whose bound is at most T, by bisection.
        left, right = np.full(6, -20.0), np.full(6, 20.0)
        for _ in range(36):
            G = 0.5 * (left + right)
            below = level.bound(G, slope, low, high) <= T
            left, right = np.where(below, G, left), np.where(below, right, G)
        score = level.score.value(left + slope * middle, middle)  # type: ignore[arg-type]
        assert (score <= T + 1e-9).all()
        # What a chord loses: T dv^2 / 32 in t, and less in p.
        assert (score >= T - 0.04 * (high - low) ** 2 - 1e-3 * (name == "logistic")).all()


def test_chord_and_tangent_of_the_probit_are_right() -> None:
    level = level_of(LINKS.get("probit"))
    low, high, middle = np.array([0.0]), np.array([3.0]), np.array([1.25])
    assert level.slope(np.array(2.0), low, high, middle)[0] == pytest.approx(2.0 * (2.0 - 1.0) / 3.0)
    assert level.slope(np.array(-2.0), low, high, middle)[0] == pytest.approx(-1.0 / 1.5)
    assert level.slope(np.array(0.0), low, high, middle)[0] == 0.0
    # Inside the interval: (G + k v) / sqrt(1 + v) with G, k < 0 peaks at 1 + v = (G - k)/k.
    peak = level.bound(np.array([-3.0]), np.array([-1.0]), low, high)[0]
    v = np.linspace(0.0, 3.0, 100_001)
    assert peak == pytest.approx(((-3.0 - v) / np.sqrt(1.0 + v)).max(), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_an_increasing_function_of_the_score(name: str) -> None:
    level = level_of(LINKS.get(name))
    shape = 0.125 * np.pi if name == "logistic" else 1.0
    m, v, h = np.array([0.7]), np.array([2.0]), 1e-4

    def f(m: Array, v: Array) -> Array:
        return m / np.sqrt(1.0 + shape * v)

    found = [each[0] for each in level.derivatives(m, v)]
    expected = [
        (f(m + h, v) - f(m - h, v)) / (2 * h),
        (f(m, v + h) - f(m, v - h)) / (2 * h),
        (f(m + h, v + h) - f(m + h, v - h) - f(m - h, v + h) + f(m - h, v - h)) / (4 * h * h),
        (f(m, v + h) - 2 * f(m, v) + f(m, v - h)) / (h * h),
    ]
    np.testing.assert_allclose(found, np.array(expected)[:, 0], rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_signed_bound_of_the_minimum_is_never_below(name: str) -> None:
    level = level_of(LINKS.get(name))
    high = np.array([0.0, 0.1, 0.3, 0.5, 0.9, 1.0])
    signed = level.signed(high, -1)
    if name == "logistic":
        assert (signed >= high - 1.0).all()
        assert (signed <= high - 1.0 + 1e-15).all()
        assert signed[3] == -0.5
    else:
        np.testing.assert_array_equal(signed, high)
    np.testing.assert_array_equal(level.signed(high, 1), high)


def test_thresholds_outside_zero_and_one_stay_finite() -> None:
    probit, logistic = level_of(LINKS.get("probit")), level_of(LINKS.get("logistic"))
    for level in (probit, logistic):
        T = np.array(level.threshold(1.3))
        slope = level.slope(T, np.array([0.1]), np.array([0.4]), np.array([0.2]))
        assert np.isfinite(slope).all()
    assert np.isfinite(probit.threshold(-0.2))


@pytest.mark.parametrize("name", NAMES)
def test_chords_over_parts_lie_on_the_safe_side_outside_their_part(name: str) -> None:
    """What makes parts worth while: where the level is concave, a part's chord is above it elsewhere."""
    level = level_of(LINKS.get(name))
    low, high = np.array([0.1]), np.array([9.0])
    edges = level.edges(low, high, 4)[0]
    assert edges[0] == low[0] and edges[-1] == high[0] and (np.diff(edges) > 0).all()
    T = np.array(level.threshold(0.9))
    assert level.is_concave(T)
    assert not level.is_concave(np.array(level.threshold(0.2)))
    v = np.linspace(0.1, 9.0, 60)
    for start, end in pairwise(edges):
        slope = level.slope(T, np.array([start]), np.array([end]), low)[0]
        # The line through the level at `start`, by bisection on its height there.
        left, right = 0.0, 20.0
        for _ in range(60):
            m = 0.5 * (left + right)
            left, right = (m, right) if level.score.value(m, np.array(start)) <= T else (left, m)  # type: ignore[arg-type]
        outside = (v < start - 0.1) | (v > end + 0.1)
        assert (level.score.value(left + slope * (v - start), v)[outside] >= T - 1e-4).all()


@dataclass(frozen=True)
class Peaked(Logistic):
    """A logistic whose probability is large at one variance alone, and nothing is to be paid for what lies between."""

    at: float = 0.0
    B2: float = 0.0
    B3: float = 0.0
    B4: float = 0.0

    def probability(self, mean: Array, variance: Array) -> Array:
        return np.where(np.abs(variance - self.at) < 1e-9, 0.75, 0.25)


def test_every_point_of_the_grid_counts() -> None:
    low, high = np.array([0.3]), np.array([6.3])
    for at in np.linspace(low[0], high[0], level_module._CELLS + 1):
        bound = level_of(Peaked(at=at)).bound(np.zeros(1), np.array([-0.4]), low, high)
        assert bound[0] == pytest.approx(0.75, abs=1e-9)


def test_what_lies_between_the_grid_points_is_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_module, "_CELLS", 1)
    level, rng = level_of(LINKS.get("logistic")), np.random.default_rng(9)
    low, high, slope = rng.random(60), 1.0 + 6.0 * rng.random(60), -0.2 - 0.5 * rng.random(60)
    G = -1.0 - rng.random(60)
    v = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 101)
    p = level.score.value(G[:, None] + slope[:, None] * v, v)
    assert (p.max(axis=1) > np.maximum(p[:, 0], p[:, -1]) + 1e-6).any()
    assert (p.max(axis=1) <= level.bound(G, slope, low, high)).all()


@pytest.mark.parametrize("squeeze", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("probability", [0.31, 0.5, 0.64])
def test_the_threshold_of_a_squeezed_probit_has_the_probability(squeeze: float, probability: float) -> None:
    level = ProbitLevel(ProbitScore(squeeze))
    share = ndtr(level.threshold(probability))
    assert squeeze + (1.0 - 2.0 * squeeze) * share == pytest.approx(probability, abs=1e-14)


@pytest.mark.parametrize(("B", "expected"), [((1, 0, 0), 0.09), ((0, 1, 0), 0.3), ((0, 0, 1), 0.25)])
def test_each_derivative_of_the_link_counts_between_the_grid_points(
    B: tuple[float, float, float], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2 k^2 + B3 |k| + B4/4 times h^2/8, at k = -0.3 and h = 1."""
    monkeypatch.setattr(level_module, "_CELLS", 2)
    link = SimpleNamespace(name="made up", B2=B[0], B3=B[1], B4=B[2], probability=lambda m, v: 0.0 * m + 0.2)
    level = ProbabilityLevel(ProbabilityScore(link))
    found = level.bound(np.zeros(1), np.array([-0.3]), np.array([1.0]), np.array([3.0]))
    assert found[0] == pytest.approx(0.2 + expected / 8.0, abs=1e-10)


def test_the_probit_s_largest_score_along_a_line_allows_for_what_cancels() -> None:
    """At the ends of lines that nearly cross zero there, in exact arithmetic."""
    rng = np.random.default_rng(6)
    low = rng.random(200)
    high, slope = low + rng.random(200), 10.0 * rng.standard_normal(200)
    G = -slope * np.where(rng.random(200) < 0.5, low, high) * (1.0 + 1e-12 * rng.standard_normal(200))
    found = ProbitLevel(ProbitScore()).bound(G, slope, low, high)
    for g, k, *ends, bound in zip(*(each.tolist() for each in (G, slope, low, high, found)), strict=True):
        for v in map(Decimal, ends):
            assert (Decimal(g) + Decimal(k) * v) / (1 + v).sqrt() < Decimal(bound)
