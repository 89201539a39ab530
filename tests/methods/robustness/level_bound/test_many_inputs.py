"""With many free inputs expansions stop at degree 2: sound at any radius, and what is left out is of order 3."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.level_bound import matern, squared_exponential
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from tests.methods.robustness.made_up_posteriors import KERNELS, Exact, random_posterior


@pytest.fixture(autouse=True)
def two_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (matern, squared_exponential):
        monkeypatch.setattr(module, "MANY_INPUTS", 1)
    monkeypatch.setattr(squared_exponential, "FEW_INPUTS", 1)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_models_of_degree_two_hold_for_small_and_large_boxes(kernel: str, sparse: bool) -> None:
    rng = np.random.default_rng(21)
    posterior = random_posterior(rng, kernel, "probit", 10, 2, sparse)
    free = np.arange(2)
    bound, exact = level_bound(posterior, posterior.X[0], free), Exact(posterior, posterior.X[0], free)
    centre = posterior.X[:3] + 0.2 * posterior.lengthscales
    for reach in (1e-2, 0.5, 2.0, 5.0):
        radius = np.full((3, 2), reach) * rng.uniform(0.3, 1.0, (3, 2))
        models = bound.expand(centre).over(radius)
        assert models.mean.model.cubic is None and models.variance.model.cubic is None
        steps = np.concatenate([rng.uniform(-1, 1, (60, 2)), rng.choice([-1.0, 1.0], (4, 2))])
        for b in range(3):
            x = steps * radius[b]
            for found, values in zip(
                (models.mean, models.variance), exact(centre[b] + x * posterior.lengthscales), strict=True
            ):
                taylor = (
                    found.model.constant[b]
                    + x @ found.model.linear[b]
                    + np.einsum("pi,ij,pj->p", x, found.model.quadratic[b], x)
                )
                tolerance = 1e-9 * posterior.variance * (1 + np.abs(posterior.alpha).sum())
                assert np.all(values >= taylor - found.below[b] - tolerance)
                assert np.all(values <= taylor + found.above[b] + tolerance)


@pytest.mark.parametrize("kernel", ["squared_exponential", "matern52"])
def test_what_is_left_out_is_of_order_three(kernel: str) -> None:
    posterior = random_posterior(np.random.default_rng(22), kernel, "probit", 10, 2)
    bound = level_bound(posterior, posterior.X[0], np.arange(2))
    expansion = bound.expand(posterior.X[:3] + 0.3 * posterior.lengthscales)
    wide, narrow = (expansion.over(np.full((3, 2), reach)) for reach in (4e-2, 1e-2))
    for more, less in ((wide.mean, narrow.mean), (wide.variance, narrow.variance)):
        assert np.all(more.below + more.above >= 3.5**3 * (less.below + less.above))
