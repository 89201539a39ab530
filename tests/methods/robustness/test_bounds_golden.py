"""Widths of the bounds over fixed boxes: what soundness tests cannot see is a bound that became looser."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.rkhs_taylor import rkhs_taylor
from gpsuite.models.links import LINKS
from tests.models.gpc_problems import fitted_posterior

# kernel, degree (0: the paper's bound), link, half-width of the boxes: summed widths of mean, variance and score
WIDTHS = [
    ("squared_exponential", 1, "probit", 0.03, (0.23318651, 0.058199687, 0.19390918)),
    ("squared_exponential", 1, "probit", 0.3, (3.2261945, 1.7109615, 3.3114538)),
    ("squared_exponential", 2, "probit", 0.03, (0.22358118, 0.050347207, 0.18194232)),
    ("squared_exponential", 2, "probit", 0.3, (2.5238038, 1.7750951, 2.7890937)),
    ("squared_exponential", 2, "logistic", 0.03, (0.26720797, 0.054234449, 0.045323787)),
    ("squared_exponential", 2, "logistic", 0.3, (2.9420973, 2.0636835, 0.53604543)),
    ("matern32", 1, "probit", 0.03, (0.24999148, 0.29369777, 0.2962331)),
    ("matern32", 1, "probit", 0.3, (4.313419, 4.7797111, 4.5782647)),
    ("matern52", 1, "logistic", 0.03, (0.27336571, 0.11202484, 0.048023306)),
    ("matern52", 1, "logistic", 0.3, (3.9799914, 4.3688772, 0.72580443)),
    ("squared_exponential", 0, "probit", 0.03, (0.23913782, 0.17165678, 0.27003428)),
    ("squared_exponential", 0, "probit", 0.3, (3.7174895, 5.0, 4.0140209)),
]


@pytest.mark.parametrize(("kernel", "degree", "link", "half", "widths"), WIDTHS)
def test_bounds_are_as_tight_as_they_were(
    kernel: str, degree: int, link: str, half: float, widths: tuple[float, float, float]
) -> None:
    posterior = fitted_posterior("laplace", kernel, LINKS.get(link))[0]
    x0, free = np.array([0.2, 0.1]), np.arange(2)
    bound = rkhs_taylor(posterior, x0, free, degree) if degree else paper_bound(posterior, x0, free)
    centre = np.array([[0.2, 0.1], [-0.7, 0.4]])
    found = bound.bounds(centre - half, centre + half)
    ends = (
        (found.mean_low, found.mean_high),
        (found.variance_low, found.variance_high),
        (found.low, found.high),
    )
    # the numbers have eight digits; the fit's own convergence moves the ninth
    np.testing.assert_allclose([np.sum(high - low) for low, high in ends], widths, rtol=1e-6)
