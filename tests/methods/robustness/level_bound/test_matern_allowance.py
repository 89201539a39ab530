"""Matérn models of the variance when the operator may be a little negative: what is added is taken off again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.methods.robustness.level_bound.latent_model import MomentModel
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.level_bound.matern import expand_matern
from tests.methods.robustness.made_up_posteriors import Exact, random_posterior


@pytest.mark.parametrize("kernel", ["matern32", "matern52"])
def test_the_variances_range_hardly_depends_on_the_allowance(kernel: str) -> None:
    """G >= 0 known as G >= -1/4: only the rests, of the order of the box, grow; both ranges hold."""
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
