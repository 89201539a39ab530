"""Orders 4 and 5 for few inputs: exact coefficients, and remainders that are nearly reached."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gpsuite.methods.robustness.level_bound.cubic import Cubic, coefficients, homogeneous_range, monomials, sum_slack
from gpsuite.methods.robustness.level_bound.squared_exponential import (
    HighOrders,
    cross_terms,
    expand_squared_exponential,
    high_orders,
    high_remainders,
    high_size,
    mean_model,
    mean_remainder,
    variance_model,
)
from tests.arrays import Array
from tests.methods.robustness.level_bound.level_models import one_datum, value

SHARP = 0.97


def at(high: HighOrders, x: Array) -> float:
    """Return orders 4 and 5 of one box at one point."""
    parts = ((high.fourth, 4), (high.fifth, 5))
    return float(sum(each[0] @ np.prod(x ** monomials(len(x), order)[1], axis=1) for each, order in parts))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_orders_equal_direct_sums(d: int) -> None:
    rng = np.random.default_rng(d)
    w, S, D = rng.standard_normal((1, 7)), rng.standard_normal((1, d, 7)), rng.standard_normal((1, d, 7))
    for slopes in (None, S):
        high = high_orders(w, slopes, D)
        for x in rng.standard_normal((5, d)):
            along = x @ D[0]
            direct = sum((w[0] * along**q).sum() / math.factorial(q) for q in (4, 5))
            if slopes is not None:
                turned = x @ S[0]
                direct += sum((turned * along ** (q - 1)).sum() / math.factorial(q - 1) for q in (4, 5))
            assert at(high, x) == pytest.approx(direct, rel=1e-11)
    apart = (w[0] * np.ones((7, 7)) * w[0][:, None] * (D[0].T @ D[0]) ** 4).sum() / 24.0
    apart += (w[0] * w[0][:, None] * (D[0].T @ D[0]) ** 5).sum() / 120.0
    assert high_orders(w, None, D).norm2[0] == pytest.approx(apart, rel=1e-10)


@pytest.mark.parametrize(("d", "order"), [(1, 4), (2, 4), (2, 5), (3, 5)])
def test_ranges_of_homogeneous_polynomials_hold(d: int, order: int) -> None:
    rng = np.random.default_rng(order)
    tensor, radius = rng.standard_normal((4, d**order)), rng.random((4, d))
    coefficient = coefficients(tensor, d, order)
    low, high = homogeneous_range(coefficient, radius, order)
    x = radius[:, None] * rng.uniform(-1.0, 1.0, (4, 2000, d))
    values = np.einsum("bm,bkm->bk", coefficient, np.prod(x[:, :, None] ** monomials(d, order)[1], axis=3))
    assert (low <= values.min(axis=1)).all()
    assert (values.max(axis=1) <= high).all()
    square = np.zeros((1, d**order))
    square[0, 0] = 1.0  # x_1^q: its own range exactly
    low, high = homogeneous_range(coefficients(square, d, order), radius[:1], order)
    assert high[0] == pytest.approx(radius[0, 0] ** order)
    assert low[0] == pytest.approx(0.0 if order == 4 else -(radius[0, 0] ** order))


def test_the_size_of_high_orders_allows_for_its_sum() -> None:
    """|x^4| + |x^5| at 1 is 2, and what a sum's rounding may take from it is added."""
    high = replace(
        high_orders(np.ones((1, 1)), None, np.ones((1, 1, 1))), fourth=np.ones((1, 1)), fifth=-np.ones((1, 1))
    )
    paid = high_size(high, np.ones((1, 1)))[0] / 2.0 - 1.0
    assert 0.9 * sum_slack(1) <= paid <= 1.1 * sum_slack(1)


@pytest.mark.parametrize("rate", [0.5, 1.0])
@pytest.mark.parametrize("order", range(6))
def test_remainders_enclose_each_order_and_are_nearly_reached(order: int, rate: float) -> None:
    """One input, the polynomial x^order: exp(-rate x^2) x^order minus the part kept in the cubic model."""
    r = 0.1
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    parts = [one if q == order else zero for q in range(6)]
    polynomial = Cubic(parts[0][0], parts[1], parts[2][None], parts[3][None, None])
    high = HighOrders(parts[4], parts[5], np.zeros(1))
    low, most = high_remainders(polynomial, high, np.array([[r]]), np.array([r * r]), rate)
    kept = {0: lambda x: 1 - rate * x * x, 1: lambda x: x - rate * x**3, 2: lambda x: x * x, 3: lambda x: x**3}
    x = np.linspace(-r, r, 401)
    left = np.exp(-rate * x * x) * x**order - kept.get(order, lambda x: 0.0 * x)(x)
    assert low[0] <= left.min() + 1e-18
    assert left.max() <= most[0] + 1e-18
    widest = max(-low[0], most[0])
    assert np.abs(left).max() >= (SHARP - 0.05 * (order in (2, 3))) * widest


def test_mean_remainder_of_order_five_is_attained_at_the_datum() -> None:
    datum = np.array([0.9, -1.2])
    form = one_datum("squared_exponential", datum)
    expansion = expand_squared_exponential(form, np.zeros((1, 2)))
    A, high = replace(expansion.A, cubic=expansion._degree_three[0]), expansion._high_orders[0]
    total = value(A, datum[None])[0] + at(high, datum)
    left = 1.0 - math.exp(-0.5 * float(datum @ datum)) * total
    remainder = mean_remainder(form, A, np.abs(datum)[None], high)[0]
    assert SHARP * remainder <= left <= remainder * (1 + 1e-9)


def test_cross_terms_of_order_five_are_allowed_for() -> None:
    """As at degree 3: operators of one input that turn degree 0 towards 6 and degree 1 towards 5."""
    for low, top in ((0, 6), (1, 5)):
        x, angle, terms = 0.02, 0.2, 14
        z = np.zeros(terms)
        z[low], z[top] = math.cos(angle), math.sin(angle)
        H = np.eye(terms) - np.outer(z, z)
        H[1 - low, 1 - low] -= 1.0
        phi = np.array([math.exp(-0.5 * x * x) * x**m / math.sqrt(math.factorial(m)) for m in range(terms)])
        y1, y3 = np.where(np.arange(terms) < 2, phi, 0.0), np.where(np.arange(terms) > 5, phi, 0.0)
        cross = 2.0 * y1 @ H @ y3 + 2.0 * phi[1] * H[1, 5] * phi[5]
        zero = np.zeros((1, 1))
        P = Cubic(H[:1, 0], zero, zero[None], zero[None, None])
        high = HighOrders(zero, zero, np.zeros(1))
        form = one_datum("squared_exponential", np.zeros(1))
        allowed = cross_terms(form, P, H[None, 1:2, 1:2], np.array([[x]]), high)[0]
        assert 0.93 * allowed <= abs(cross) <= allowed * (1 + 1e-9)


def test_high_orders_tighten_the_model_where_there_are_few_inputs() -> None:
    rng = np.random.default_rng(2)
    form = one_datum("squared_exponential", rng.standard_normal(2), weight=3.0)
    expansion, radius = expand_squared_exponential(form, np.zeros((1, 2))), np.array([[0.3, 0.2]])
    found = expansion.over(radius)
    third = expansion._degree_three
    mean = mean_model(form, replace(expansion.A, cubic=third[0]), radius)
    variance = variance_model(form, replace(expansion.P, cubic=third[1]), expansion.block, radius)
    for few, many in ((found.mean, mean), (found.variance, variance)):
        np.testing.assert_array_equal(few.model.cubic, many.model.cubic)  # type: ignore[arg-type]
        assert few.above[0] + few.below[0] < 0.9 * (many.above[0] + many.below[0])
    x = rng.uniform(-1.0, 1.0, (500, 2)) * radius
    k = np.exp(-0.5 * ((x - form.X.T[0]) ** 2).sum(axis=1))
    for moment, exact in ((found.mean, k), (found.variance, 1.0 - 0.75 * k**2)):
        model = value(moment.model, x)
        assert (exact <= model + moment.above[0]).all()
        assert (exact >= model - moment.below[0]).all()
