"""Radial functions against 60-digit arithmetic, and the orthonormality of the expansion's basis."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from gpsuite.methods.robustness.operators import PROFILES, operator_form
from tests.methods.robustness.made_up_posteriors import KERNELS, random_posterior

DISTANCES = [*np.logspace(-9, 1.3, 40)]


def exact_kappa(kernel: str, r: Decimal) -> tuple[Decimal, Decimal, Decimal]:
    """Return kappa, -kappa' and lambda."""
    if kernel == "squared_exponential":
        value = (-r * r / 2).exp()
        return value, r * value, Decimal(1)
    if kernel == "matern32":
        z = Decimal(3).sqrt() * r
        return (1 + z) * (-z).exp(), 3 * r * (-z).exp(), Decimal(3)
    z = Decimal(5).sqrt() * r
    return (1 + z + z * z / 3) * (-z).exp(), Decimal(5) / 3 * r * (1 + z) * (-z).exp(), Decimal(5) / 3


@pytest.mark.parametrize("kernel", KERNELS)
def test_differences_keep_their_digits_near_zero(kernel: str) -> None:
    profile = PROFILES.get(kernel)
    for distance in DISTANCES:
        with localcontext() as context:
            context.prec = 90
            r = Decimal(float(distance))
            value, fall, curvature = exact_kappa(kernel, r)
            drop, tail = 1 - value, 1 - value**2 - fall**2 / curvature
            slope_drop = curvature.sqrt() - fall / (r * curvature.sqrt())
        at = np.array([distance])
        assert profile.drop(at)[0] == pytest.approx(float(drop), rel=1e-12)
        assert profile.slope_drop(at)[0] == pytest.approx(float(slope_drop), rel=1e-12)
        assert profile.tail(at)[0] == pytest.approx(float(tail), rel=1e-10)
        assert profile.curvature == pytest.approx(float(curvature), rel=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_tails_and_drops_rise(kernel: str) -> None:
    profile, r = PROFILES.get(kernel), np.linspace(0.0, 12.0, 4001)
    for values in (profile.tail(r), profile.drop(r), profile.slope_drop(r)):
        assert values[0] == 0.0
        # Beyond about six lengthscales all are 1 up to rounding.
        assert np.all(np.diff(values) >= -4e-16)


def test_fixed_inputs_fold_into_the_weights_once() -> None:
    posterior = random_posterior(np.random.default_rng(4), "squared_exponential", "probit", 12, 4)
    x0 = posterior.X[1] + 0.1
    form = operator_form(posterior, x0, np.array([0, 2]))
    mean, variance = (form.variance * part for part in form.moments(form.origin[None]))
    exact_mean, exact_variance = posterior.latent(x0[None])
    assert mean[0] == pytest.approx(exact_mean[0], rel=1e-12)
    assert variance[0] == pytest.approx(exact_variance[0], rel=1e-10)
