"""Every term of the bounds for several classes, by ranges that are given: what each adds, and on which side."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.multiclass import softmax_bound as module
from gpsuite.methods.robustness.multiclass.latent_differences import (
    CURVATURE,
    CovarianceChange,
    DifferenceRanges,
    covariance_change,
)
from gpsuite.methods.robustness.multiclass.softmax_bound import SoftmaxBound
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, SoftmaxMoments, softmax_moments
from tests.models.softmax_problems import random_softmax_posterior

CUBATURE = 2e-9  # its error and the rounding allowed for
STEP = 1e-5


@dataclass(frozen=True)
class Given:
    """Stands in for the latent differences: the same ranges at every point."""

    ranges: DifferenceRanges

    def at(self, points: FloatArray) -> DifferenceRanges:
        return self.ranges


def drawn(C: int = 3, seed: int = 4, log_variance: tuple[float, float] = (0.0, 0.5)) -> MultiClassPosterior:
    return random_softmax_posterior(np.random.default_rng(seed), "squared_exponential", C, 12, 2, log_variance)


def ranges_around(
    mean: FloatArray, up: FloatArray | float = 0.0, down: FloatArray | float = 0.0, own: int = 0
) -> DifferenceRanges:
    """Return ranges without covariance in which m_own - m_j rises by `up` and falls by `down`, [B, C] each."""
    B, C = mean.shape
    offset = mean[:, :, None] - mean[:, None]
    low, high = offset.copy(), offset.copy()
    rise, fall = (np.broadcast_to(each, (B, C)).copy() for each in (up, down))
    rise[:, own] = fall[:, own] = 0.0
    high[:, own] += rise
    low[:, own] -= fall
    high[:, :, own], low[:, :, own] = -low[:, own], -high[:, own]
    none = np.zeros((B, C, C))
    return DifferenceRanges(mean, np.zeros((B, C, C - 1)), low, high, none, none.copy())


def bound_of(ranges: DifferenceRanges) -> SoftmaxBound:
    posterior = drawn(ranges.mean.shape[1])
    bound = SoftmaxBound(posterior, posterior.X[0], np.arange(2))
    bound.differences = Given(ranges)  # type: ignore[assignment]
    return bound


def with_error(error: float) -> Any:
    def moments(mean: FloatArray, root: FloatArray, otherwise: Any = None) -> SoftmaxMoments:
        return replace(softmax_moments(mean, root), error=np.full(len(mean), error))

    return moments


def test_a_point_counts_a_quarter_of_the_means_spread() -> None:
    """Two equal classes, where the sigmoid is steepest: the constant is met."""
    spread = 1e-3
    bound = bound_of(ranges_around(np.zeros((1, 2)), spread, spread))
    points = np.zeros((1, 2))
    low, high = bound.class_of(bound.at(points), 0)
    assert high[0] >= expit(spread) and low[0] <= expit(-spread)
    np.testing.assert_allclose([low[0], high[0]], [0.5 - spread / 4, 0.5 + spread / 4], atol=3e-10)
    low, high = bound.margin_of(bound.at(points), 0, 1)
    np.testing.assert_allclose([low[0], high[0]], [-spread / 2, spread / 2], atol=CUBATURE)


def test_a_point_counts_the_cubatures_error_once_for_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "softmax_moments", with_error(0.01))
    mean, points = np.array([[0.0, 0.4, -0.3]]), np.zeros((1, 2))
    bound, p = bound_of(ranges_around(mean)), softmax(mean[0])
    np.testing.assert_allclose(np.ravel(bound.class_of(bound.at(points), 1)), p[1] + [-0.01, 0.01], atol=CUBATURE)
    np.testing.assert_allclose(
        np.ravel(bound.margin_of(bound.at(points), 1, 2)), p[1] - p[2] + [-0.02, 0.02], atol=CUBATURE
    )


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_margin_moves_with_the_covariance_of_both_its_classes(sign: float) -> None:
    """Where only D_12 grows, class 0 can but fall, and class 1 either way."""
    ranges = ranges_around(np.zeros((1, 3)))
    change = np.zeros((1, 3, 3))
    change[0, 1, 2] = change[0, 2, 1] = 0.3 * sign
    moved = replace(ranges, change_low=np.minimum(change, 0.0), change_high=np.maximum(change, 0.0))
    bound = bound_of(moved)
    low, high = bound.margin_of(bound.at(np.zeros((1, 2))), 0, 1)
    alone, rival = 0.3 / 27.0, 0.3 * CURVATURE
    wanted = [-rival - alone, rival] if sign > 0 else [-rival, rival + alone]
    np.testing.assert_allclose([low[0], high[0]], wanted, atol=CUBATURE)


@pytest.mark.parametrize("name", ["mean_low", "mean_high", "change_low", "change_high"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_range_that_is_not_known_says_nothing_about_its_row_only(name: str, value: float) -> None:
    ranges = ranges_around(np.zeros((3, 3)))
    broken = getattr(ranges, name).copy()
    broken[1, 0, 2] = value
    bound = bound_of(replace(ranges, **{name: broken}))
    points = np.zeros((3, 2))
    low, high = bound.class_of(bound.at(points), 0)
    assert (low[1], high[1]) == (0.0, 1.0) and np.all(high[::2] - low[::2] < 1e-8)
    low, high = bound.margin_of(bound.at(points), 0, 1)
    assert (low[1], high[1]) == (-1.0, 1.0) and np.all(high[::2] - low[::2] < 1e-8)


@pytest.mark.parametrize("names", [("mean_low", "mean_high"), ("change_low", "change_high")])
def test_a_range_out_of_order_says_nothing(names: tuple[str, str]) -> None:
    ranges = ranges_around(np.zeros((2, 3)))
    crossed = getattr(ranges, names[1]).copy()
    crossed[1, 2, 1] -= 1e-3
    assert replace(ranges, **{names[1]: crossed}).valid.tolist() == [True, False]


def test_the_spread_is_the_farthest_difference_on_either_side() -> None:
    mean = np.array([[0.0, 0.4, -0.3]])
    assert ranges_around(mean, 0.2, 0.1).spread == pytest.approx(0.2)
    assert ranges_around(mean, 0.1, 0.2).spread == pytest.approx(0.2)


@pytest.mark.parametrize("proved", [False, True])
@pytest.mark.parametrize("own", range(4))
def test_monotony_is_exact_where_all_rivals_move_alike(own: int, proved: bool) -> None:
    """Without covariance Jensen's inequality and the two corners are the softmax itself."""
    rng = np.random.default_rng(own)
    mean = rng.standard_normal((20, 4))
    up, down = rng.uniform(0.0, 2.0, (2, 20, 1))
    ranges = ranges_around(mean, up, down, own)
    local: Any = SimpleNamespace(ranges=ranges, moments=replace(softmax_moments(mean, ranges.root), proved=proved))
    low, high = module._monotone(local, own)
    moved = np.zeros_like(mean)
    moved[:, own] = 1.0
    np.testing.assert_allclose(high, softmax(mean + up * moved, axis=1)[:, own], atol=CUBATURE)
    np.testing.assert_allclose(low, softmax(mean - down * moved, axis=1)[:, own], atol=CUBATURE)


@pytest.mark.parametrize("proved", [False, True])
@pytest.mark.parametrize("own", range(3))
def test_monotony_encloses_what_a_single_rival_does(own: int, proved: bool) -> None:
    rng = np.random.default_rng([9, own])
    mean, root = rng.standard_normal((8, 3)), 0.7 * rng.standard_normal((8, 3, 2))
    before = replace(softmax_moments(mean, root), proved=proved)
    for rival in range(3):
        if rival == own:
            continue
        width = np.zeros((8, 3))
        width[:, rival] = 0.8
        ranges = replace(ranges_around(mean, width, width, own), root=root)
        local: Any = SimpleNamespace(ranges=ranges, moments=before)
        low, high = module._monotone(local, own)
        for sign, end in ((-1.0, high), (1.0, low)):
            moved = mean.copy()
            moved[:, rival] += sign * 0.8
            p = softmax_moments(moved, root).mean[:, own]
            assert np.all(low <= p + CUBATURE) and np.all(p <= high + CUBATURE)
            if proved:
                np.testing.assert_allclose(end, p, atol=CUBATURE)


def test_jensens_bound_counts_the_cubatures_error_and_survives_any_change() -> None:
    mean = np.array([[0.0, 0.4, -0.3], [0.0, 800.0, 0.0]])
    ranges = ranges_around(mean, np.array([[0.0], [5000.0]]), np.array([[0.0], [5000.0]]))
    exact = softmax_moments(mean, ranges.root)
    local: Any = SimpleNamespace(ranges=ranges, moments=replace(exact, error=np.array([0.01, 0.01]), by_rule=False))
    low, high = module._monotone(local, 0)
    p = softmax(mean[0])[0]
    np.testing.assert_allclose([low[0], high[0]], [p - 0.01, p + 0.01], atol=CUBATURE)
    np.testing.assert_allclose([low[1], high[1]], [0.0, 1.0], atol=CUBATURE)


def _slopes(posterior: MultiClassPosterior, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return derivatives by lengthscales of the class probabilities [C, d] by the means alone, of every D_ij."""
    moments, gradient = posterior.moments(x), posterior.mean_with_gradient(x)[1][0]
    by_mean = np.diag(moments.mean[0]) - moments.product[0]
    C, scale = posterior.n_classes, posterior.lengthscales
    variances = []
    for i, j in itertools.combinations(range(C), 2):
        steps = [x + sign * STEP * scale * np.eye(2) for sign in (1.0, -1.0)]
        up, down = (posterior.difference(i, j).latent(points)[1] for points in steps)
        variances.append((up - down) / (2.0 * STEP))
    return by_mean @ gradient * scale, np.abs(variances).max(axis=0)


def test_linear_bounds_begin_with_the_value_and_its_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    """By m_own - m_j, at the reference, against differences of the exact expectations."""
    posterior = drawn()
    x, seen = posterior.X[:2] + 0.1, []
    bound = SoftmaxBound(posterior, posterior.X[0], np.arange(2))
    local, real = bound.over(x - 1e-3, x + 1e-3), bound._linear
    mean, root, step = local.ranges.mean, local.ranges.root, 1e-4

    def spy(local: Any, own: int, *rest: Any) -> Any:
        seen.append((own, *rest))
        return real(local, own, *rest)

    monkeypatch.setattr(bound, "_linear", spy)

    def check(quantity: FloatArray, own: int, functions: float) -> None:
        compared, weights, value, times = seen[0]
        assert (compared, times) == (own, functions)
        np.testing.assert_allclose(value, softmax_moments(mean, root).mean @ quantity, atol=CUBATURE)
        for j in range(3):
            if j != own:
                moved = step * np.eye(3)[j]
                up, down = (softmax_moments(mean + s * moved, root).mean @ quantity for s in (-1.0, 1.0))
                np.testing.assert_allclose(weights[:, j], (up - down) / (2.0 * step), atol=1e-5)
        seen.clear()

    for own in range(3):
        bound.class_ends(bound.over(x - 1e-3, x + 1e-3), own)
        check(np.eye(3)[own], own, 1.0)
        rival = (own + 2) % 3
        bound.margin_ends(bound.over(x - 1e-3, x + 1e-3), own, rival)
        check(np.eye(3)[own] - np.eye(3)[rival], own, 2.0)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_box_allows_for_the_covariance_of_every_class_it_asks_for(sign: float) -> None:
    posterior = drawn()
    bound = SoftmaxBound(posterior, posterior.X[0], np.arange(2))
    x = posterior.X[:2] + 0.1
    change = np.zeros((2, 3, 3))
    change[:, 1, 2] = change[:, 2, 1] = 1e-3 * sign

    def ends(low: FloatArray, high: FloatArray) -> list[FloatArray]:
        local = bound.over(x - 1e-5, x + 1e-5)
        known = replace(local, ranges=replace(local.ranges, change_low=low, change_high=high))
        own, margin = bound.class_ends(known, 0), bound.margin_ends(known, 0, 1)
        assert np.all(own.low <= own.centre) and np.all(own.centre <= own.high)
        assert np.all(margin.low <= margin.centre) and np.all(margin.centre <= margin.high)
        assert np.all(own.high - own.low < 4e-3) and np.all(margin.high - margin.low < 4e-3)
        return [own.low, own.high, margin.low, margin.high]

    none = ends(0.0 * change, 0.0 * change)
    some = ends(np.minimum(change, 0.0), np.maximum(change, 0.0))
    alone, rival = 1e-3 / 27.0, 1e-3 * CURVATURE
    wanted = [-alone, 0.0, -alone - rival, rival] if sign > 0 else [0.0, alone, -rival, alone + rival]
    for before, after, moved in zip(none, some, wanted, strict=True):
        np.testing.assert_allclose(after - before, moved, atol=2e-8)


def test_the_longest_way_of_the_quantity_is_cut_first() -> None:
    posterior = drawn()
    x, radius = posterior.X[:1] + 0.1, np.array([[2e-5, 7e-6]])
    bound, half = SoftmaxBound(posterior, posterior.X[0], np.arange(2)), radius * posterior.lengthscales
    local = bound.over(x - half, x + half)
    slope, variance = _slopes(posterior, x)
    for own in range(3):
        score = bound.class_ends(local, own).split_score[0]
        wanted = radius[0] * (np.abs(slope[own]) + CURVATURE * variance + 1e-3)
        np.testing.assert_allclose(score, wanted, rtol=1e-3)
        rival = (own + 1) % 3
        score = bound.margin_ends(local, own, rival).split_score[0]
        wanted = radius[0] * (np.abs(slope[own] - slope[rival]) + 2.0 * CURVATURE * variance + 1e-3)
        np.testing.assert_allclose(score, wanted, rtol=1e-3)


@pytest.mark.parametrize("functions", [1.0, 2.0])
def test_the_linear_bound_allows_for_curvature_and_the_cubatures_error(functions: float) -> None:
    posterior = drawn()
    bound = SoftmaxBound(posterior, posterior.X[0], np.arange(2))
    x = posterior.X[:2] + 0.1
    local = bound.over(x - 1e-3, x + 1e-3)
    weights, value = np.array([[0.0, 0.2, 0.1], [0.0, -0.3, 0.2]]), np.array([0.4, 0.5])

    def ends(spread: float, error: float) -> tuple[FloatArray, FloatArray]:
        offset = local.ranges.offset
        ranges = replace(local.ranges, mean_low=offset - spread, mean_high=offset + spread)
        moments = replace(local.moments, error=np.full(2, error), tilt=3.0 * np.full(2, error))
        return bound._linear(replace(local, ranges=ranges, moments=moments), 0, weights, value, functions)[:2]

    low, high = ends(0.0, 0.0)
    wide_low, wide_high = ends(0.7, 0.01)
    more = functions * (CURVATURE * 0.7**2 + 0.01 * (1.0 + 3 * 0.7))
    np.testing.assert_allclose(wide_high - high, more, rtol=1e-9)
    np.testing.assert_allclose(low - wide_low, more, rtol=1e-9)
    # the box itself: first order in its width
    gradient = posterior.mean_with_gradient(x)[1]
    moved = sum(weights[:, j, None] * (gradient[:, 0] - gradient[:, j]) for j in (1, 2))
    reach = np.abs(np.asarray(moved)).sum(axis=1) * 1e-3
    np.testing.assert_allclose([high - value, value - low], [reach, reach], rtol=2e-2, atol=1e-9)


def test_the_linear_bound_allows_for_the_rounding_of_large_differences() -> None:
    posterior = drawn()
    bound = SoftmaxBound(posterior, posterior.X[0], np.arange(2))
    x = posterior.X[:2] + 0.1
    local = bound.over(x, x)
    weights = 1e9 * np.array([[0.0, 0.2, 0.1], [0.0, -0.3, 0.2]])
    size = np.abs(np.einsum("bj,bj->b", weights, local.ranges.offset[:, 0]))
    ranges = replace(local.ranges, mean_low=local.ranges.offset, mean_high=local.ranges.offset)
    low, high = bound._linear(replace(local, ranges=ranges), 0, weights, np.zeros(2), 1.0)[:2]
    assert np.all(size > 1e6)
    assert np.all(high > 0.99e-12 * 2.0 * size) and np.all(low < -0.99e-12 * 2.0 * size)


@pytest.mark.parametrize("C", [2, 3, 5])
def test_the_covariances_change_is_the_formula(C: int) -> None:
    """A, B and the factor as in the module's first lines, summed term by term."""
    rng = np.random.default_rng(C)
    low, high = np.zeros((2, 6, C, C))
    for i in range(C):
        for j in range(i):
            ends = np.sort(rng.normal(size=(6, 2)) * 0.3, axis=1).T
            low[:, i, j] = low[:, j, i] = ends[0]
            high[:, i, j] = high[:, j, i] = ends[1]
    p = rng.uniform(0.01, 0.99, 6)
    for own in range(C):
        change = covariance_change(low, high, own)
        others = [c for c in range(C) if c != own]
        for row in range(6):
            mine = max(max(-low[row, own, j], high[row, own, j]) for j in others)
            falls = max([0.0] + [-low[row, i, j] for i in others for j in others if i != j])
            rises = max([0.0] + [high[row, i, j] for i in others for j in others if i != j])
            B = 2.0 / 27.0 * (C - 2) / (C - 1)
            up, down = mine / (12.0 * 3.0**0.5) + B * falls, mine / (12.0 * 3.0**0.5) + B * rises
            factor = np.exp(0.5 * (mine + max(falls, rises)))
            q = p[row]
            highest = min(q + up, q * factor, 1.0 - (1.0 - q) / factor)
            lowest = max(q - down, q / factor, 1.0 - (1.0 - q) * factor)
            assert change.highest(p)[row] == pytest.approx(highest, rel=1e-10)
            assert change.lowest(p)[row] == pytest.approx(lowest, rel=1e-10)
            # rounded outwards
            assert change.up[row] > up * (1.0 + 5e-13) or up == 0.0
            assert change.down[row] > down * (1.0 + 5e-13) or down == 0.0
            assert change.rate[row] > np.log(factor) * (1.0 + 5e-13) or factor == 1.0


@pytest.mark.parametrize("q", [1e-9, 0.3, 1.0 - 1e-9])
def test_the_covariances_change_is_rounded_outwards(q: float) -> None:
    """Of no change at all: a little to both sides, of the formula that is sharpest there."""
    none = np.zeros((1, 3, 3))
    change, p = covariance_change(none, none, 0), np.array([q])
    assert p[0] <= change.highest(p)[0] <= p[0] * (1.0 + 1e-11)
    assert p[0] * (1.0 - 1e-11) <= change.lowest(p)[0] <= p[0]


def test_the_factor_of_a_small_probability_is_rounded_outwards() -> None:
    change, p = CovarianceChange(np.ones(1), np.ones(1), np.full(1, 0.3)), np.full(1, 1e-6)
    assert change.highest(p)[0] > 1e-6 * np.exp(0.3) * (1.0 + 5e-13)
    assert change.lowest(p)[0] < 1e-6 * np.exp(-0.3) * (1.0 - 5e-13)


def test_what_is_out_of_order_or_not_finite_is_closed_to_the_trivial_bound() -> None:
    posterior = drawn()
    bound = SoftmaxBound(posterior, posterior.X[0], np.arange(2))
    x = posterior.X[:3] + 0.1
    local = bound.over(x - 1e-3, x + 1e-3)
    low, high = np.array([0.2, 0.6, np.nan]), np.array([1.7, 0.5, 0.5])
    score = np.array([[1.0, np.nan], [np.inf, 2.0], [0.0, 0.0]])
    for least in (0.0, -1.0):
        ends = module._closed(local, low, high, low, score, least)
        assert ends.low.tolist() == [0.2, least, least] and ends.high.tolist() == [1.0, 1.0, 1.0]
        assert ends.split_score.tolist() == [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]
        assert module._closed(local, low - 9.0, high, low, score, least).low[0] == least
