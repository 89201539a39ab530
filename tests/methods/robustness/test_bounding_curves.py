from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.methods.robustness.bounding_curves import bounding_curves
from gpsuite.methods.robustness.class_probability import BoundingFunction
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.paper_bound import paper_bound
from tests.methods.robustness.made_up_posteriors import Exact, random_boxes, random_posterior, random_setting

SLACK = 1e-12


def bound_of(name: str, *setting: Any) -> BoundingFunction:
    return paper_bound(*setting) if name == "paper" else level_bound(*setting)


@pytest.mark.parametrize("name", ["rkhs_taylor", "paper"])
@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_the_curves_enclose_the_class_probability(name: str, link: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        posterior, x0, free = random_setting(rng, "squared_exponential", link, 15, 3, sparse=False)
        bounding = bound_of(name, posterior, x0, free)
        exact = Exact(posterior, x0, free)
        for lo, hi in zip(*random_boxes(rng, posterior, x0, free, 8), strict=True):
            points = lo + rng.random((50, len(free))) * (hi - lo)
            low, high = bounding_curves(bounding, posterior.link, lo, hi, points)
            truth = posterior.link.probability(*exact(points))
            assert (low <= truth + SLACK).all()
            assert (truth <= high + SLACK).all()


@pytest.mark.parametrize("kernel", ["matern32", "matern52"])
def test_matern_curves_enclose_too(kernel: str) -> None:
    rng = np.random.default_rng(2)
    posterior = random_posterior(rng, kernel, "probit", 12, 1)
    bounding = level_bound(posterior, posterior.X[0], np.array([0]))
    width = 0.3 * posterior.lengthscales
    x = np.linspace(posterior.X[0] - width, posterior.X[0] + width, 101)
    low, high = bounding_curves(bounding, posterior.link, x[0], x[-1], x)
    truth = posterior.probability(x)
    assert (low <= truth + SLACK).all()
    assert (truth <= high + SLACK).all()
    assert high.max() - low.min() < 1.0


@pytest.mark.parametrize("name", ["rkhs_taylor", "paper"])
def test_the_curves_bend_and_stay_within_the_bounds_of_mean_and_variance(name: str) -> None:
    rng = np.random.default_rng(3)
    posterior = random_posterior(rng, "squared_exponential", "probit", 12, 1)
    bounding = bound_of(name, posterior, posterior.X[0], np.array([0]))
    width = 0.2 * posterior.lengthscales
    x = np.linspace(posterior.X[0] - width, posterior.X[0] + width, 51)
    low, high = bounding_curves(bounding, posterior.link, x[0], x[-1], x)
    box = bounding.bounds(x[:1], x[-1:])
    least = box.mean_low / np.sqrt(1.0 + (box.variance_high if box.mean_low >= 0 else box.variance_low))
    assert low.min() >= bounding.to_probability(least)[0] - SLACK
    assert np.ptp(low) > 0.0
    assert np.ptp(high) > 0.0


def test_another_bound_has_no_curves() -> None:
    class Other:
        name = "other"

    zero = np.zeros(1)
    with pytest.raises(TypeError, match="other"):
        bounding_curves(Other(), None, zero, zero, zero[None])  # type: ignore[arg-type]
