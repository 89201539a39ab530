"""Remainders of the squared exponential expansion where they are sharp: a halved tail or remainder is noticed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpsuite.methods.robustness.level_bound.cubic import Cubic, MomentModel
from gpsuite.methods.robustness.level_bound.squared_exponential import (
    cross_terms,
    distance_form,
    expand_squared_exponential,
    growth,
    mean_model,
    mean_remainder,
    tail,
    variance_model,
    without_allowance,
)
from tests.methods.robustness.level_bound.level_models import one_datum, value

SHARP = 0.99
ROUNDING = 1e-9  # relative slack that is always added


def poisson_tail(square: float, degree: int) -> float:
    terms = (square**k / math.factorial(k) for k in range(degree + 1, degree + 60))
    return math.exp(-square) * math.fsum(terms)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("rho", [0.01, 0.3, 1.0, 3.0])
def test_tail_is_the_poisson_probability(degree: int, rho: float) -> None:
    exact = poisson_tail(rho**2, degree)
    found = tail(np.array([[0.6 * rho, 0.8 * rho]]), degree)[0]
    assert exact <= found <= exact * (1 + ROUNDING)


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("rho", [0.1, 0.5, 1.5])
def test_mean_remainder_is_attained_where_the_point_is_the_datum(degree: int, rho: float) -> None:
    datum = rho * np.array([0.6, -0.8])
    form = one_datum("squared_exponential", datum)
    expansion = expand_squared_exponential(form, np.zeros((1, 2)))
    A = expansion.A
    if degree == 3:
        A = Cubic(A.constant, A.linear, A.quadratic, expansion._degree_three[0])
    left = 1.0 - math.exp(-0.5 * rho**2) * value(A, datum[None])[0]
    remainder = mean_remainder(form, A, np.abs(datum)[None])[0]
    assert left <= remainder * (1 + ROUNDING) + 1e-13
    assert left >= SHARP * remainder - 1e-6 * rho  # eta is a difference of squares


@pytest.mark.parametrize(
    ("constant", "curved", "side"),
    [(1.0, 0.0, "above"), (-1.0, 0.0, "below"), (0.0, 1.0, "below"), (0.0, -1.0, "above")],
)
def test_remainder_of_the_mean_is_attained_at_the_corner(constant: float, curved: float, side: str) -> None:
    """E A of a constant or of a pure square, at |x| = rho: the part beyond the cubic model, to leading order."""
    form = one_datum("squared_exponential", np.zeros(1))
    A = Cubic(np.array([constant]), np.zeros((1, 1)), np.full((1, 1, 1), curved), np.zeros((1, 1, 1, 1)))
    form = type(form)(**{**form.__dict__, "norm2": constant**2 + 2.0 * curved**2})  # nothing beyond A
    r = 0.03
    found = mean_model(form, A, np.array([[r]]))
    left = math.exp(-0.5 * r * r) * (constant + curved * r * r) - value(found.model, np.array([[r]]))[0]
    remainder = found.above[0] if side == "above" else -found.below[0]
    assert -found.below[0] <= left <= found.above[0]
    assert left / remainder >= SHARP


@pytest.mark.parametrize(
    ("constant", "curved", "side"), [(1.0, 0.0, "above"), (0.0, 1.0, "below"), (0.0, -1.0, "above")]
)
def test_remainder_of_the_variance_is_attained_at_the_corner(constant: float, curved: float, side: str) -> None:
    form = one_datum("squared_exponential", np.full(1, 50.0))
    P = Cubic(np.array([constant]), np.zeros((1, 1)), np.full((1, 1, 1), curved), np.zeros((1, 1, 1, 1)))
    block, r = np.zeros((1, 1, 1)), 0.03
    found = variance_model(form, P, block, np.array([[r]]))
    cross = cross_terms(form, P, block, np.array([[r]]))[0]
    beyond = tail(np.array([[r]]), 1)[0]
    left = math.exp(-r * r) * (constant + curved * r * r) - value(found.model, np.array([[r]]))[0]
    remainder = found.above[0] - cross - beyond if side == "above" else cross - found.below[0]
    assert left / remainder >= SHARP


def test_variance_beyond_degree_one_is_attained_without_data() -> None:
    """No data near: Sigma = s and <phi, phi> - E^2 (1 + |x|^2) = tau_1, all of it above degree 1."""
    form = one_datum("squared_exponential", np.full(2, 60.0))
    radius = np.array([[0.2, 0.1]])
    expansion = expand_squared_exponential(form, np.zeros((1, 2)))
    x = radius
    left = 1.0 - math.exp(-float(x[0] @ x[0])) * value(expansion.P, x)[0]
    found = expansion.over(radius)
    assert left == pytest.approx(poisson_tail(float(x[0] @ x[0]), 1), rel=1e-10)
    model = value(found.variance.model, x)[0]
    assert model - found.variance.below[0] <= 1.0 <= model + found.variance.above[0]
    assert found.variance.above[0] >= tail(radius, 1)[0]


@pytest.mark.parametrize(("low", "high"), [(0, 4), (1, 3)])
def test_cross_terms_are_nearly_attained(low: int, high: int) -> None:
    """Operators on the basis e_m of one input that turn degree `low` towards `high` and lose the other low degree.

    H = I - z z* - e e* with z = cos e_low + sin e_high; the coefficients of phi are E x^m / sqrt(m!).
    """
    x, angle, terms = 0.01, 0.2, 12
    z = np.zeros(terms)
    z[low], z[high] = math.cos(angle), math.sin(angle)
    H = np.eye(terms) - np.outer(z, z)
    H[1 - low, 1 - low] -= 1.0
    phi = np.array([math.exp(-0.5 * x * x) * x**m / math.sqrt(math.factorial(m)) for m in range(terms)])
    y1, y3 = np.where(np.arange(terms) < 2, phi, 0.0), np.where(np.arange(terms) > 3, phi, 0.0)
    cross = 2.0 * y1 @ H @ y3 + 2.0 * phi[1] * H[1, 3] * phi[3]
    P = Cubic(H[:1, 0], np.zeros((1, 1)), np.zeros((1, 1, 1)), np.zeros((1, 1, 1, 1)))
    form = one_datum("squared_exponential", np.zeros(1))
    allowed = cross_terms(form, P, H[None, 1:2, 1:2], np.array([[x]]))[0]
    assert 0.95 * allowed <= abs(cross) <= allowed * (1 + ROUNDING)


@pytest.mark.parametrize("rho", [0.02, 0.1])
def test_distance_forms_are_attained(rho: float) -> None:
    """Sigma = 1 - kappa^2 around a datum without noise; mu of the difference of two data along their line."""
    form = one_datum("squared_exponential", np.zeros(1), weight=1e12)
    kappa, drop = math.exp(-0.5 * rho**2), np.array([-math.expm1(-0.5 * rho**2)])
    low, high = distance_form(form, np.zeros(1), drop)
    assert low[0] == 0.0
    assert SHARP * high[0] <= 1.0 - kappa**2 <= high[0]
    low, _ = distance_form(form, np.array([1.0 - kappa**2]), drop)
    assert low[0] <= 1e-4 * rho**2  # back at the datum
    norm2 = 2.0 * float(drop[0])
    apart = replace(form, norm2=norm2, floor=-1.0, ceiling=1.0)
    start = np.array([kappa - 1.0])  # of kappa(x - X_2) - kappa(x - X_1) at x = X_1
    low, high = apart.mean_range(start, drop)
    assert high[0] == pytest.approx(1.0 - kappa, rel=1e-6)
    assert low[0] == pytest.approx(-3.0 * float(drop[0]), rel=1e-6)


@pytest.mark.parametrize("nu", [0.0, 0.3])
def test_taking_the_allowance_off_encloses_the_clipped_variance_and_no_more(nu: float) -> None:
    """F + nu is within its model's remainders, the variance s max(0, F): lifted by nu at most, where F may be < 0."""
    flat = np.zeros((2, 1))
    model = Cubic(np.array([1.0, 0.5]), flat, flat[:, :, None], None)
    below, above = np.array([0.2, 0.45]), np.array([0.4, 0.1])
    found = without_allowance(MomentModel(model, below, above, model.constant - below, model.constant + above), nu, 2.0)
    for b in range(2):
        plus = np.linspace(model.constant[b] - below[b], model.constant[b] + above[b], 50)
        variance = 2.0 * np.maximum(0.0, plus - nu)
        assert np.all(variance >= found.model.constant[b] - found.below[b])
        assert np.all(variance <= found.model.constant[b] + found.above[b])
        assert np.all((found.low[b] <= variance) & (variance <= found.high[b]))
        assert found.low[b] == pytest.approx(variance.min(), abs=1e-11)
        assert found.high[b] == pytest.approx(variance.max(), abs=1e-11)
    np.testing.assert_allclose(found.model.constant, 2.0 * (model.constant - nu))
    np.testing.assert_allclose(found.below, 2.0 * below, atol=1e-11)
    lifted = np.array([0.0, nu])  # only the second may be below nu
    np.testing.assert_allclose(found.above, 2.0 * (above + lifted), atol=1e-11)
    slack = found.below - 2.0 * below
    assert np.all((slack >= 1.9e-13 * (1 + nu)) & (slack <= 4e-13 * (1 + nu)))


def test_a_distance_form_allows_for_the_rounding_of_its_centre() -> None:
    """At the centre itself the form is known to its Gram error, beyond it to the root's reach, up to its bound."""
    form = replace(one_datum("squared_exponential", np.array([0.4, 0.3])), gram_error=0.01)
    most = form.bound
    centre = most * np.array([0.5, 0.005, 0.999])
    for drop in (0.0, 0.02):
        reach = np.sqrt(2 * most * drop)
        near, far = distance_form(form, centre, np.full(3, drop))
        least = np.maximum(0.0, np.sqrt(np.maximum(0.0, centre - 0.01)) - reach) ** 2
        largest = np.minimum((np.sqrt(centre + 0.01) + reach) ** 2, most)
        assert np.all(near <= least) and np.all(far >= largest * (1 - 1e-15))
        np.testing.assert_allclose(near, least, rtol=1e-7)
        np.testing.assert_allclose(far, largest, rtol=1e-7)


@pytest.mark.parametrize("rho", [0.1, 1.0, 2.0])
def test_the_means_model_allows_for_coefficients_and_what_multiplies_them(rho: float) -> None:
    """Every coefficient off by e moves the series by e growth, and its product with 1 - rho^2 / 2 + ... by more."""
    form = one_datum("squared_exponential", np.array([0.4, 0.3]))
    flat = np.zeros((1, 2))
    nothing = Cubic(np.zeros(1), flat, flat[:, :, None] * flat[:, None], None)
    radius = np.full((1, 2), rho / np.sqrt(2.0))
    exact, off = (mean_model(replace(form, mean_error=error), nothing, radius) for error in (0.0, 0.01))
    share = 1.0 + rho**2 / 2.0 + rho**4 / 8.0
    most = 0.01 * form.variance * growth(radius, 2)[0] * share * (1.0 + rho**2 + rho**4)
    for more in (off.above - exact.above, off.below - exact.below):
        assert 0.99 * most <= more[0] <= 1.01 * most


RADIUS = np.array([[0.3, 0.4]])


def constant(value: float) -> Cubic:
    return Cubic(np.array([value]), np.zeros((1, 2)), np.zeros((1, 2, 2)), None)


def test_the_norm_left_to_the_remainder_allows_for_coefficients_that_are_off() -> None:
    """|h|^2 = 4, one coefficient of 1 known up to .001 as the five others of degree <= 2 are."""
    form = replace(one_datum("squared_exponential", np.ones(2)), mean_error=1e-3, norm2=4.0)
    eta = np.sqrt(4.0 - (1.0 - np.sqrt(6.0) * 1e-3) ** 2)
    expected = eta * np.sqrt(tail(RADIUS, 2)[0])
    assert mean_remainder(form, constant(1.0), RADIUS)[0] == pytest.approx(expected, rel=1e-9)


def test_cross_terms_allow_for_the_rounding_of_the_block_and_of_the_constant() -> None:
    form = replace(one_datum("squared_exponential", np.ones(2)), gram_error=0.01)
    slope, g = 0.5 * np.sqrt(2 * 0.01), form.bound
    expected = 2 * (0.1 + slope) * np.sqrt(g * tail(RADIUS, 2)[0]) + 2 * slope * np.sqrt(g / 2) * 0.5**2
    assert cross_terms(form, constant(0.0), np.zeros((1, 2, 2)), RADIUS)[0] == pytest.approx(expected, rel=1e-6)


def test_a_form_that_rounding_made_negative_may_still_be_zero() -> None:
    form = one_datum("squared_exponential", np.ones(2))
    found = variance_model(form, constant(-0.01), np.zeros((1, 2, 2)), np.zeros((1, 2)))
    assert found.model.constant[0] == pytest.approx(-0.01)
    assert found.model.constant[0] + found.above[0] >= 0.0
