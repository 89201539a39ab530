from __future__ import annotations

import numpy as np
import pytest

from gpsuite.errors import UserError
from gpsuite.methods.robustness.paper_bound import paper_bound
from tests.methods.robustness.made_up_posteriors import (
    LINK_NAMES,
    Exact,
    count_violations,
    random_boxes,
    random_posterior,
    random_setting,
)


@pytest.mark.guarantee
@pytest.mark.parametrize(("variant", "n", "models", "boxes"), [("quick", 14, 8, 16), ("slow", 5, 3, 4)])
def test_every_point_lies_within_the_bounds(variant: str, n: int, models: int, boxes: int) -> None:
    rng = np.random.default_rng(23)
    failures = 0
    for model in range(models):
        posterior, x0, free = random_setting(
            rng, "squared_exponential", LINK_NAMES[model % 3], n, 6, variant == "quick" and model % 2 == 1
        )
        low, high = random_boxes(rng, posterior, x0, free, boxes)
        bound = paper_bound(posterior, x0, free, variant)
        failures += count_violations(rng, bound, Exact(posterior, x0, free), low, high, 8)[1]
    assert failures == 0


@pytest.mark.parametrize("variant", ["quick", "slow"])
def test_a_point_box_gives_the_value_at_the_point(variant: str) -> None:
    posterior = random_posterior(np.random.default_rng(1), "squared_exponential", "probit", 6, 2)
    x0, free = posterior.X[0] + 0.1, np.arange(2)
    bound = paper_bound(posterior, x0, free, variant)
    b = bound.bounds(x0[None], x0[None])
    mean, variance = posterior.latent(x0[None])
    scale = posterior.variance
    assert b.mean_low[0] == pytest.approx(mean[0], abs=1e-9 * scale)
    assert b.mean_high[0] == pytest.approx(mean[0], abs=1e-9 * scale)
    assert b.variance_low[0] == pytest.approx(variance[0], abs=1e-8 * scale)
    assert b.variance_high[0] == pytest.approx(variance[0], abs=1e-8 * scale)
    assert bound.to_probability(b.centre)[0] == pytest.approx(posterior.probability(x0[None])[0], abs=1e-9)


def test_programs_are_tighter_than_pairs_above() -> None:
    posterior = random_posterior(np.random.default_rng(9), "squared_exponential", "probit", 10, 2)
    free, centre = np.arange(2), posterior.X[:3]
    half = 0.4 * posterior.lengthscales
    quick, slow = (
        paper_bound(posterior, centre[0], free, variant).bounds(centre - half, centre + half)
        for variant in ("quick", "slow")
    )
    assert np.all(slow.variance_high <= quick.variance_high * (1.0 + 1e-3))


def test_what_the_baseline_cannot_do_is_refused() -> None:
    rng = np.random.default_rng(0)
    other = random_posterior(rng, "matern32", "probit", 4, 2)
    sparse = random_posterior(rng, "squared_exponential", "probit", 4, 2, sparse=True)
    with pytest.raises(UserError, match="squared exponential"):
        paper_bound(other, other.X[0], np.arange(2))
    with pytest.raises(UserError, match="Laplace"):
        paper_bound(sparse, sparse.X[0], np.arange(2), "slow")
    with pytest.raises(UserError, match="variant"):
        paper_bound(sparse, sparse.X[0], np.arange(2), "other")
