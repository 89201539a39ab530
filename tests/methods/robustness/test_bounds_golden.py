"""Widths of the bounds over fixed boxes: what soundness tests cannot see is a bound that became looser."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.models.classification.links import LINKS
from tests.models.gpc_problems import fitted_posterior

# kernel, bound, link, half-width of the boxes: summed widths of mean, variance and score
WIDTHS = [
    ("squared_exponential", "ours", "probit", 0.03, (0.2233583, 0.049257373, 0.18023302)),
    ("squared_exponential", "ours", "probit", 0.3, (2.3341122, 0.75488586, 1.9239217)),
    ("squared_exponential", "ours", "logistic", 0.03, (0.26696542, 0.05295972, 0.044337746)),
    ("squared_exponential", "ours", "logistic", 0.3, (2.7393238, 0.81512246, 0.44750209)),
    ("matern32", "ours", "probit", 0.03, (0.22845267, 0.088643172, 0.17393904)),
    ("matern32", "ours", "probit", 0.3, (5.2300675, 3.5761513, 5.5924406)),
    ("matern52", "ours", "logistic", 0.03, (0.2585618, 0.070181491, 0.04219896)),
    ("matern52", "ours", "logistic", 0.3, (3.3764277, 2.3167187, 0.58598503)),
    ("squared_exponential", "paper", "probit", 0.03, (0.23913782, 0.17165678, 0.27003428)),
    ("squared_exponential", "paper", "probit", 0.3, (3.7174895, 5.0, 4.0140209)),
]


@pytest.mark.parametrize(("kernel", "name", "link", "half", "widths"), WIDTHS)
def test_bounds_are_as_tight_as_they_were(
    kernel: str, name: str, link: str, half: float, widths: tuple[float, float, float]
) -> None:
    posterior = fitted_posterior("laplace", kernel, LINKS.get(link))[0]
    x0, free = np.array([0.2, 0.1]), np.arange(2)
    bound = {"ours": level_bound, "paper": paper_bound}[name](posterior, x0, free)
    centre = np.array([[0.2, 0.1], [-0.7, 0.4]])
    found = bound.bounds(centre - half, centre + half)
    ends = ((found.mean_low, found.mean_high), (found.variance_low, found.variance_high), (found.low, found.high))
    # the numbers have eight digits; the fit's own convergence moves the ninth
    np.testing.assert_allclose([np.sum(high - low) for low, high in ends], widths, rtol=1e-6)
