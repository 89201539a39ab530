"""Matérn models of the variance when the operator may be a little negative: what is added is taken off again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound.cubic import MomentModel
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.level_bound.matern import expand_matern, kernel_orders
from tests.methods.robustness.made_up_posteriors import Exact, random_posterior


@pytest.mark.parametrize("kernel", ["matern32", "matern52"])
def test_the_variances_range_hardly_depends_on_the_allowance(kernel: str) -> None:
    """G >= 0 known as G >= -1/4: only the remainders, of the order of the box, grow; both ranges hold."""
    rng = np.random.default_rng(5)
    posterior = random_posterior(rng, kernel, "probit", 8, 2)
    free, scale = np.arange(2), posterior.lengthscales
    form = level_bound(posterior, posterior.X[0], free).form
    centre = posterior.X[:5] + 0.3 * scale * rng.standard_normal((5, 2))
    radius = np.full((5, 2), 1e-3)

    def ranges(below: float) -> MomentModel:
        operator = replace(form.products.operator, below=below)
        changed = replace(form, products=replace(form.products, operator=operator))
        return expand_matern(changed, centre).over(radius).variance

    found, wide = ranges(form.products.operator.below), ranges(0.25)
    exact = Exact(posterior, posterior.X[0], free)
    for box in range(5):
        _, variance = exact(centre[box] + scale * radius[box] * rng.uniform(-1.0, 1.0, (20, 2)))
        for each in (found, wide):
            assert np.all((each.low[box] <= variance) & (variance <= each.high[box]))
    s = posterior.variance
    np.testing.assert_allclose(wide.low, found.low, atol=5e-3 * s)
    np.testing.assert_allclose(wide.high, found.high, atol=5e-3 * s)


@pytest.mark.parametrize("kernel", ["matern32", "matern52"])
def test_the_square_beyond_degree_one_may_be_taken_off_by_one_plus_the_allowance(kernel: str) -> None:
    posterior = random_posterior(np.random.default_rng(5), kernel, "probit", 8, 2)
    form = level_bound(posterior, posterior.X[0], np.arange(2)).form
    centre, radius = posterior.X[:3, :2] + 0.1, np.full((3, 2), 0.3)

    def model(nu: float) -> MomentModel:
        operator = replace(form.products.operator, below=nu)
        changed = replace(form, products=replace(form.products, operator=operator))
        return expand_matern(changed, centre).over(radius).variance

    expansion = expand_matern(form, centre)
    square = expansion._beyond_degree_one(np.full(3, np.sqrt(2 * 0.3**2)))
    assert np.all(model(0.5).below - model(0.0).below >= 0.49 * posterior.variance * square)


def test_slopes_times_what_is_left_out_allow_for_operators_above_one_and_for_rounding() -> None:
    """With hardly any slopes in R, what is left is the operator's excess t over 1 and the Gram matrix's error."""
    posterior = random_posterior(np.random.default_rng(6), "matern52", "probit", 8, 2)
    form = level_bound(posterior, posterior.X[0], np.arange(2)).form
    expansion = expand_matern(form, posterior.X[:1, :2] + 0.1)
    expansion = replace(expansion, W=1e-20 * np.ones_like(expansion.W))
    radius, rho = np.full((1, 2), 0.3), np.array([np.sqrt(0.18)])
    orders = kernel_orders(expansion.kernel, expansion.offset, expansion.distance, expansion.f, rho, 4)
    orders = replace(orders, slope_remainder=np.full_like(orders.slope_remainder, 1e40))

    def left(above: float, error: float) -> FloatArray:
        operator = replace(form.products.operator, below=0.0, above=above)
        own = replace(form, products=replace(form.products, operator=operator), gram_error=error)
        return expansion._slopes_left_out(own, orders, radius, rho)

    assert left(3.0, 0.0) == pytest.approx(left(2.0, 0.0) * (np.sqrt(2 * 3) + 2) / (np.sqrt(2) + 1), rel=1e-6)
    assert left(1.0, 0.04) == pytest.approx(2.0 * left(1.0, 0.01), rel=1e-6)
    assert left(1.0, 0.01) > 0.01
