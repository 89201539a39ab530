"""The plain bound encloses the classifier of the stored floats, wherever they lie; every part keeps its promise.

The oracle has 60 decimal digits and knows only the definition.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from gpsuite.arrays import FloatArray
from gpsuite.certificates import plain_bound, plain_moments
from gpsuite.certificates import plain_model as plain_model_module
from gpsuite.certificates.plain_bound import PlainBound, class_probability
from gpsuite.certificates.plain_kernel import UNIT64, Long
from gpsuite.certificates.plain_model import PlainModel, plain_slice
from gpsuite.certificates.plain_moments import Expander
from tests.arrays import Array
from tests.methods.robustness.certified_point import certified, plain_model
from tests.methods.robustness.decimal_oracle import exact_score, many_digits
from tests.methods.robustness.made_up_posteriors import random_boxes, random_posterior

KERNELS = ("squared_exponential", "matern32", "matern52")
LINKS = ("probit", "logistic", "squeezed_probit")
LENGTHSCALES, OFFSETS = (1e-8, 1e3), (1.0, 1e8)


def random_model(rng: np.random.Generator, kernel: str, link: str, most: int = 12) -> tuple[PlainModel, Array]:
    """Return a classifier of a random unit and offset, and a point near its data or anywhere."""
    n, inputs = int(rng.integers(2, most + 1)), int(rng.integers(1, 4))
    model = plain_model(random_posterior(rng, kernel, link, n, inputs, bool(rng.random() < 0.3)))
    unit = np.exp(rng.uniform(*np.log(LENGTHSCALES)))
    offset = rng.choice([-1.0, 0.0, 1.0]) * np.exp(rng.uniform(*np.log(OFFSETS)))
    model = dataclasses.replace(model, X=model.X * unit + offset, lengthscales=model.lengthscales * unit)
    near = model.X[0] + 0.3 * unit * rng.standard_normal(inputs)
    return model, near if rng.random() < 0.8 else rng.standard_normal(inputs)


def both(plain: PlainBound, lo: Array, hi: Array) -> tuple[Array, Array]:
    """Return bounds from both sides at the level of the centres' scores."""
    with np.errstate(invalid="ignore"):
        middle = np.mean(plain.at(0.5 * lo + 0.5 * hi), axis=0)
    return plain.bound(lo, hi, -1, middle)[0], plain.bound(lo, hi, 1, middle)[0]


def violations(seed: int, kernel: str, link: str, models: int, boxes: int, points: int) -> tuple[int, int]:
    """Count points beyond the bound, and all points, for random models, boxes and points."""
    rng, bad, total = np.random.default_rng(seed), 0, 0
    for _ in range(models):
        model, x0 = random_model(rng, kernel, link)
        inputs = len(x0)
        free = np.sort(rng.choice(inputs, int(rng.integers(1, inputs + 1)), replace=False))
        plain = PlainBound(model, x0, free)
        lo, hi = random_boxes(rng, model, x0, free, boxes)  # type: ignore[arg-type]
        low, high = both(plain, lo, hi)
        for box in range(boxes):
            share = rng.random((points, len(free)))
            share[points // 2 :] = np.round(share[points // 2 :])
            for point in lo[box] + share * (hi[box] - lo[box]):
                x = x0.copy()
                x[free] = np.clip(point, lo[box], hi[box])
                total += 1
                bad += not Decimal(low[box]) <= exact_score(model, x) <= Decimal(high[box])
    return bad, total


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bound_holds_in_any_unit_and_far_from_the_origin(kernel: str) -> None:
    assert violations(1, kernel, "probit", models=12, boxes=8, points=6) == (0, 576)


def test_the_bound_holds_for_the_logistic_link() -> None:
    assert violations(2, "squared_exponential", "logistic", models=3, boxes=5, points=2) == (0, 30)


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bound_holds_many_times(kernel: str, link: str) -> None:
    models = 30 if link == "logistic" else 250
    assert violations(3, kernel, link, models, boxes=16, points=8)[0] == 0


@pytest.mark.parametrize("work", [np.float64, Long])
@pytest.mark.parametrize("kernel", KERNELS)
def test_zero_width_boxes_enclose_the_score_tightly(kernel: str, work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both precisions are sound, and no looser than their rounding: a slack forgotten or doubled often shows."""
    monkeypatch.setattr(plain_model_module, "FELT", np.inf if work is np.float64 else 0.0)
    rng = np.random.default_rng(4)
    for _ in range(6):
        model = plain_model(random_posterior(rng, kernel, "probit", 10, 2))
        model = dataclasses.replace(model, variance=1.0)
        x0 = model.X[0] + 0.1
        plain = PlainBound(model, x0, np.array([1]))
        assert plain.slice.reduction.dtype == work
        points = x0[1] + rng.standard_normal((5, 1))
        low, high = both(plain, points, points)
        inner = plain.at(points)
        for point, least, most, *ends in zip(points, low, high, *inner, strict=True):
            score = exact_score(model, np.array([x0[0], point[0]]))
            assert Decimal(least) <= score <= Decimal(most)
            assert Decimal(ends[0]) <= score <= Decimal(ends[1])
        size = 1 + np.abs(model.alpha).sum() + np.sum(np.abs(model.root)) ** 2
        assert np.all(high - low <= (1e-11 if work is np.float64 else 3e-12) * size)


@pytest.mark.parametrize("kernel", KERNELS)
def test_small_boxes_have_bounds_of_the_scores_slope(kernel: str) -> None:
    """For a box of half-width h the width is 2 h |t'| up to the order of the expansion: a wrong derivative shows."""
    rng = np.random.default_rng(5)
    for link in ("probit", "logistic"):
        model = plain_model(random_posterior(rng, kernel, link, 10, 2))
        plain = PlainBound(model, model.X[0], np.arange(2))
        x, h = model.X[0] + 0.4 * model.lengthscales, 1e-6 * model.lengthscales
        low, high = both(plain, (x - h)[None], (x + h)[None])
        slopes = []
        for axis in range(2):
            step = np.zeros(2)
            step[axis] = h[axis]
            with many_digits():
                slopes.append(abs(float(exact_score(model, x + step) - exact_score(model, x - step))) / 2)
        order = 0.12 if kernel == "matern32" or link == "logistic" else 0.02
        width, exact = high[0] - low[0], 2 * sum(slopes)
        assert exact * (1 - 1e-3) - 1e-11 <= width <= exact * (1 + order) + 1e-10


def test_probabilities_are_rounded_outward_also_far_in_the_tails() -> None:
    model = plain_model(random_posterior(np.random.default_rng(0), "matern52", "probit", 4, 1))
    for score in (-1e9, -40.0, -38.0, -30.0, -3.0, 0.0, 2.0, 9.0):
        low, high = class_probability(model, score)
        p = float(ndtr(score))
        assert low <= p * (1 - 9e-13) and high >= min(1.0, p * (1 + 9e-13)) and high > 0
        assert high - low <= 2.2e-12 * p + 1e-299
    squeezed = dataclasses.replace(model, squeeze=0.01)
    assert class_probability(squeezed, np.inf) == pytest.approx((0.99, 0.99), abs=1e-11)
    assert class_probability(squeezed, -1.0)[0] == pytest.approx(0.01 + 0.98 * ndtr(-1.0), abs=1e-11)
    logistic = dataclasses.replace(model, link="logistic")
    assert [class_probability(logistic, each) for each in (-0.1, 0.4, 1.1)] == [(0, 0), (0.4, 0.4), (1, 1)]


def test_moments_allow_for_their_slack_on_both_sides() -> None:
    """At a point, with sums off by a thousandth each: mean and variance are known to that at best."""
    model = plain_model(random_posterior(np.random.default_rng(17), "matern52", "probit", 6, 2))
    form = dataclasses.replace(
        plain_slice(model, model.X[0], np.arange(2)), slack_mean=1e-3, slack_gram=1e-3, norm2=1e6
    )
    x = model.X[:4] + 0.1 * model.lengthscales
    found = Expander(form).expand(x, x)
    mean, variance, errors = Expander(form).at(x)
    assert min(errors) >= 1e-3 and max(errors) <= 1e-2
    for moment, value in ((found.mean, mean), (found.variance, variance)):
        least = np.maximum(value - 1e-3, 0) if moment is found.variance else value - 1e-3
        most = np.minimum(value + 1e-3, form.above) if moment is found.variance else value + 1e-3
        assert np.all(moment.low <= least) and np.all(moment.high >= most)
        assert np.all(moment.low >= value - 0.1) and np.all(moment.high <= value + 0.1)
        assert np.all(moment.below >= 1e-3) and np.all(moment.above >= 1e-3)


@pytest.mark.parametrize("inputs", [1, 40])
def test_the_norm_of_a_boxes_half_widths_is_rounded_up(inputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the roundings of a sum over the inputs, and hardly more: remainders are powers of it."""
    rng, seen = np.random.default_rng(19), []

    def distance(kernel: str, rho: FloatArray) -> FloatArray:
        seen.append(rho)
        return np.ones_like(rho)

    monkeypatch.setattr(plain_moments, "_distance", distance)
    model = plain_model(random_posterior(rng, "squared_exponential", "probit", 4, inputs))
    half = rng.uniform(0.1, 1.0, (30, inputs)) * model.lengthscales
    found = Expander(plain_slice(model, model.X[0], np.arange(inputs))).expand(model.X[0] - half, model.X[0] + half)
    exact = np.sqrt(np.sum(found.radius.astype(Long) ** 2, axis=1))
    paid = (seen[0] - exact) / (UNIT64 * exact)
    assert np.all((paid >= 0.5 * inputs + 1) & (paid <= 2 * inputs + 64))


@pytest.mark.parametrize("size", [1e6, -1e6, 0.0])
def test_a_score_is_rounded_outward_by_its_size(size: float) -> None:
    sure = PlainModel(
        np.zeros((1, 1)), "matern52", 1.0, np.ones(1), np.array([size]), np.zeros((0, 1)), np.zeros(0), "probit"
    )  # fmt: skip
    low, high = PlainBound(sure, np.zeros(1), np.arange(1)).at(np.zeros((1, 1)))
    score = size / np.sqrt(2.0)
    for paid in (high[0] - score, score - low[0]):
        assert 0.9e-12 * (1 + abs(score)) <= paid <= 1e-10 * (1 + abs(score))


def test_the_half_widths_of_boxes_are_rounded_up() -> None:
    rng = np.random.default_rng(18)
    model = plain_model(random_posterior(rng, "matern52", "probit", 4, 3))
    half = rng.uniform(0.1, 1.0, (50, 3)) * model.lengthscales
    lo, hi = model.X[0] - half, model.X[0] + half
    c = (0.5 * lo + 0.5 * hi).astype(Long)
    exact = np.maximum(hi - c, c - lo) / model.lengthscales.astype(Long)
    found = Expander(plain_slice(model, model.X[0], np.arange(3))).expand(lo, hi).radius
    assert np.all(exact <= found) and np.all(found <= exact * (1 + 64 * UNIT64))


def test_weights_that_are_no_posteriors_are_bounded_too() -> None:
    """A certificate may hold any floats: negative latent variances count as zero, for every box alike."""
    rng, bad = np.random.default_rng(10), 0
    for _ in range(12):
        model = plain_model(random_posterior(rng, "squared_exponential", "probit", 6, 2))
        model = dataclasses.replace(model, weights=rng.uniform(-3.0, 2.0, 6), root=3 * model.root)
        plain = PlainBound(model, model.X[0], np.arange(2))
        lo = model.X[:4] - rng.uniform(0, 0.5, (4, 2))
        hi = lo + rng.uniform(0, 1, (4, 2))
        low, high = both(plain, lo, hi)
        for box in range(4):
            for x in rng.uniform(lo[box], hi[box], (15, 2)):
                bad += not Decimal(low[box]) <= exact_score(model, x) <= Decimal(high[box])
    assert bad == 0


def test_numbers_too_large_give_no_bound_or_are_refused() -> None:
    model = plain_model(random_posterior(np.random.default_rng(0), "matern52", "probit", 4, 1))
    huge = dataclasses.replace(model, alpha=model.alpha * 1e200)
    with pytest.raises(ValueError, match="too large"):
        PlainBound(huge, model.X[0], np.arange(1))
    with pytest.raises(ValueError, match="no plain bound"):
        PlainBound(dataclasses.replace(model, link="cauchit"), model.X[0], np.arange(1))
    with pytest.raises(ValueError, match="no plain bound"):
        PlainBound(dataclasses.replace(model, kernel="matern12"), model.X[0], np.arange(1))
    low, high = both(PlainBound(model, model.X[0], np.arange(1)), np.array([[np.nan]]), np.array([[1.0]]))
    assert (low[0], high[0]) == (-np.inf, np.inf)
    low, high = PlainBound(model, model.X[0], np.arange(1)).at(np.array([[np.nan], [0.0]]))
    assert (low[0], high[0]) == (-np.inf, np.inf) and -np.inf < low[1] <= high[1] < np.inf


def test_a_posterior_without_any_reduction_has_the_prior_variance() -> None:
    """Rank 0, one row, one input: t = k alpha / sqrt(1 + s)."""
    model = PlainModel(
        np.zeros((1, 1)), "matern32", 3.0, np.ones(1), np.array([0.5]), np.zeros((0, 1)), np.zeros(0), "probit"
    )
    low, high = both(PlainBound(model, np.zeros(1), np.arange(1)), np.zeros((1, 1)), np.zeros((1, 1)))
    assert low[0] <= 0.75 <= high[0] <= low[0] + 1e-11


def test_batches_and_single_boxes_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    model = plain_model(random_posterior(rng, "matern32", "logistic", 8, 3))
    lo = rng.standard_normal((20, 2))
    plain = PlainBound(model, model.X[0], np.array([0, 2]))
    whole = both(plain, lo, lo + 0.3)
    monkeypatch.setattr(plain_bound, "BLOCK", 1)
    np.testing.assert_allclose(both(plain, lo, lo + 0.3), whole, rtol=1e-12)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_ranges_that_rounding_turned_inside_out_bound_nothing(link: str, sign: int) -> None:
    certificate = certified(link=link)[3]
    region = certificate.region
    plain = PlainBound(certificate.model.binary, region.centre, region.free)
    lo = np.tile(region.centre[region.free] - 0.1, (2, 1))
    expansion = plain.expander.expand(lo, lo + 0.2)
    turned = replace(expansion.variance, low=expansion.variance.high * np.array([1.0, 1.01]))
    outer = plain._outer(replace(expansion, variance=turned), sign, np.full(2, 0.4), np.full(2, -sign * np.inf))[0]
    assert np.isfinite(outer).tolist() == [True, False]
