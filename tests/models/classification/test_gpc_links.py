from __future__ import annotations

import math
from decimal import Decimal, getcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit, log_ndtr, ndtr

from gpsuite.errors import UserError
from gpsuite.models.classification.links import LINKS, LOGISTIC, PROBIT, SQUEEZED_PROBIT, Link
from tests.arrays import Array

ALL = [LINKS.get(name) for name in LINKS]
BY_NAME = pytest.mark.parametrize("link", ALL, ids=lambda link: link.name)
MEANS = (-30.0, -3.0, 0.0, 0.1, 2.0, 50.0)
VARIANCES = (1e-4, 1.0, 25.0, 99.0, 101.0, 400.0, 1e4, 1e6)


def integral(function: Any, mean: float, variance: float) -> float:
    """Return E function(f), f ~ N(mean, variance), by adaptive quadrature on pieces."""
    sd = math.sqrt(variance)
    inner = np.clip((np.array([-40.0, -5.0, 0.0, 5.0, 40.0]) - mean) / sd, -13.0, 13.0)
    cuts = sorted({*inner.tolist(), -13.0, -4.0, 0.0, 4.0, 13.0})

    def weighted(g: float) -> float:
        return math.exp(-0.5 * g * g) / math.sqrt(2.0 * math.pi) * float(function(mean + sd * g))

    pairs = pairwise(cuts)
    return math.fsum(quad(weighted, a, b, epsabs=1e-16, epsrel=1e-13)[0] for a, b in pairs)


def test_an_unknown_link_names_the_nearest() -> None:
    assert list(LINKS) == ["logistic", "probit", "squeezed_probit"]
    with pytest.raises(UserError, match="Did you mean 'probit'"):
        LINKS.get("probbit")


@BY_NAME
@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("mean", MEANS)
def test_probability_is_the_integral(link: Link, mean: float, variance: float) -> None:
    expected = integral(link.sigma, mean, variance)
    assert float(link.probability(mean, variance)) == pytest.approx(expected, abs=1e-12)  # type: ignore[arg-type]


def test_probability_at_variance_zero_is_the_link() -> None:
    f = np.linspace(-9.0, 9.0, 7)
    for link in ALL:
        np.testing.assert_allclose(link.probability(f, np.zeros(7)), link.sigma(f), rtol=1e-14)


def test_logistic_moments_do_not_depend_on_their_neighbours() -> None:
    mean, variance = np.array([0.3, -1.0, 4.0]), np.array([0.5, 300.0, 2.0])
    together = LOGISTIC.probability(mean, variance)
    alone = [float(LOGISTIC.probability(m, v)) for m, v in zip(mean, variance, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=1e-14)
    assert LOGISTIC.probability(mean[:, None], variance).shape == (3, 3)


@BY_NAME
@given(mean=st.floats(-8.0, 8.0), variance=st.floats(0.01, 500.0))
def test_the_probabilitys_gradient_is_that_of_differences(link: Link, mean: float, variance: float) -> None:
    step = 1e-4
    by_mean = (link.probability(mean + step, variance) - link.probability(mean - step, variance)) / (2 * step)  # type: ignore[arg-type]
    wide = 1e-4 * variance
    by_variance = (link.probability(mean, variance + wide) - link.probability(mean, variance - wide)) / (  # type: ignore[arg-type]
        2 * wide
    )
    gradient = link.probability_gradient(np.float64(mean), np.float64(variance))  # type: ignore[arg-type]
    np.testing.assert_allclose(gradient, (by_mean, by_variance), rtol=1e-6, atol=1e-8)


@BY_NAME
@given(f=st.floats(-30.0, 30.0), y=st.sampled_from([-1.0, 1.0]))
def test_derivatives_of_the_log_likelihood_match_differences(link: Link, f: float, y: float) -> None:
    step = 1e-4

    def column(at: float) -> Array:
        here = np.float64(at)
        first, second, _ = link.derivatives(np.float64(y), np.array([here]))  # type: ignore[arg-type]
        return np.array([link.log_likelihood(y, here), first[0], second[0]])  # type: ignore[arg-type]

    numerical = (column(f + step) - column(f - step)) / (2 * step)
    analytic = np.ravel(link.derivatives(np.float64(y), np.array([f])))  # type: ignore[arg-type]
    np.testing.assert_allclose(analytic, numerical, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("z", [-1e6, -1e3, -50.0, -5.1, -3.1, -2.9])
def test_probit_derivatives_keep_their_digits_in_the_tail(z: float) -> None:
    # Mills ratio by its continued fraction with 80 digits; the plain formulas, which cancel in double precision
    getcontext().prec = 80
    x, rest = Decimal(-z), Decimal(0)
    for k in range(4000, 0, -1):
        rest = Decimal(k) / (x + rest)
    r = x + rest
    weight = r * (r - x)
    third = weight * (r - x) - r * (1 - weight)
    ours = PROBIT.derivatives(np.float64(1.0), np.array([z]))  # type: ignore[arg-type]
    expected = [float(r), -float(weight), float(third)]
    np.testing.assert_allclose(np.ravel(ours), expected, rtol=1e-11 if z > -3.0 else 1e-13)


@BY_NAME
def test_extreme_latents_give_finite_numbers(link: Link) -> None:
    f = np.array([-1e8, -1e3, 0.0, 1e3, 1e8])
    for y in (-1.0, 1.0):
        parts = (link.log_likelihood(y, f), *link.derivatives(y * np.ones(5), f))  # type: ignore[arg-type]
        assert all(np.isfinite(part).all() for part in parts)
        if link.log_concave:
            assert (parts[2] <= 0.0).all()


@BY_NAME
@given(f=st.floats(-20.0, 20.0), mean=st.floats(-20.0, 20.0), variance=st.floats(0.0, 300.0))
def test_links_are_symmetric_under_label_flip(link: Link, f: float, mean: float, variance: float) -> None:
    assert float(link.sigma(f) + link.sigma(-f)) == pytest.approx(1.0, abs=1e-15)  # type: ignore[arg-type]
    both = link.probability(mean, variance) + link.probability(-mean, variance)  # type: ignore[arg-type]
    assert float(both) == pytest.approx(1.0, abs=1e-14)
    assert float(link.log_likelihood(-1.0, f)) == float(link.log_likelihood(1.0, -f))  # type: ignore[arg-type]


@BY_NAME
@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("mean", [-6.0, 0.3, 5.0])
@pytest.mark.parametrize("variance", [0.01, 3.0, 60.0, 150.0])
def test_the_log_partition_and_its_derivatives_agree_with_quadrature(
    link: Link, y: float, mean: float, variance: float
) -> None:
    z = integral(lambda f: link.sigma(y * f), mean, variance)
    first = integral(lambda f: link.sigma(y * f) * (f - mean) / variance, mean, variance) / z
    square = integral(lambda f: link.sigma(y * f) * (f - mean) ** 2, mean, variance) / z
    second = (square - variance) / variance**2 - first**2
    ours = [float(part) for part in link.log_partition(y, np.float64(mean), np.float64(variance))]  # type: ignore[arg-type]
    np.testing.assert_allclose(ours, (math.log(z), first, second), rtol=1e-8, atol=1e-10)


@BY_NAME
def test_curvature_bounds_are_sharp_upper_bounds(link: Link) -> None:
    f = np.linspace(-8.0, 8.0, 40_001)
    values = link.sigma(f)
    for order, bound in ((2, link.B2), (3, link.B3), (4, link.B4)):
        largest = np.abs(np.diff(values[:: 10 * order], order)).max() / (10 * order * (f[1] - f[0])) ** order
        assert 0.999 * bound < largest <= bound * (1.0 + 1e-6)


def test_squeezed_probit_is_gpflows() -> None:
    f = np.linspace(-9.0, 9.0, 13)
    np.testing.assert_allclose(SQUEEZED_PROBIT.sigma(f), ndtr(f) * 0.998 + 1e-3, rtol=1e-15)
    np.testing.assert_array_equal(PROBIT.log_likelihood(1.0, f), log_ndtr(f))  # type: ignore[arg-type]
    np.testing.assert_array_equal(LOGISTIC.sigma(f), expit(f))
