"""The plain bound of a class' margin: true at points, close for small boxes, and what it proves is the argmax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.certificates import plain_margin
from gpsuite.certificates.certificate import MarginQuantity
from gpsuite.certificates.checker import check_certificate
from gpsuite.certificates.form import MalformedError
from gpsuite.certificates.model import JointProducts
from gpsuite.certificates.plain_margin import MarginPlainBound
from gpsuite.certificates.plain_moments import Moment
from gpsuite.certificates.plain_softmax_bound import ClassExpansions
from gpsuite.certificates.verification import check_levels, describe
from gpsuite.methods.robustness.certification import stored_model
from gpsuite.models.config import KERNEL_NAMES
from tests.certificates.joint_problems import margin_certificate, margins
from tests.models.softmax_problems import random_softmax_posterior


@pytest.mark.guarantee
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("C", [2, 3, 6])
def test_no_point_of_a_box_has_a_smaller_margin(C: int, kernel: str) -> None:
    rng = np.random.default_rng([11, C])
    for _ in range(5):
        n, d = int(rng.integers(3, 15)), int(rng.integers(1, 4))
        posterior = random_softmax_posterior(rng, kernel, C, n, d, (-1.0, 1.0))
        model, own = stored_model(posterior), int(rng.integers(C))
        plain = MarginPlainBound(ClassExpansions(model, posterior.X[0], np.arange(d), JointProducts(model)), own)
        centre = posterior.X[rng.integers(n, size=6)]
        half = 10.0 ** rng.uniform(-4.0, 0.0, (6, 1)) * rng.random((6, d)) * posterior.lengthscales
        bound = plain.bound(centre - half, centre + half, -1, np.zeros(6))[0]
        points = (centre + rng.uniform(-1.0, 1.0, (40, 6, d)) * half).reshape(-1, d)
        margin = margins(*posterior.latent(points), own)
        low, high = plain.at(points)
        scale = 1e-9 * (1.0 + posterior.variance)
        assert (low <= margin + scale).all() and (margin <= high + scale).all() and (high - low < 1e3 * scale).all()
        assert (bound <= margin.reshape(40, 6) + scale).all()
        small = half.max(axis=1) < 1e-3 * posterior.lengthscales.min()
        assert (margin.reshape(40, 6).min(axis=0) - bound)[small].max(initial=0.0) < 0.05 * (1.0 + posterior.variance)


def test_a_margin_is_certified_confirmed_and_reported() -> None:
    made = margin_certificate()
    report = check_certificate(made)
    assert report.confirmed and report.leaves == len(made.claims[0].leaf)
    assert made.claims[0].proves_margin and not replace(made.claims[0], outer=0.0).proves_margin
    assert check_levels(made, None)[0].outcome == "confirmed"
    [said] = [text for name, text in describe(made, True) if name == "minimum"]
    assert "is the most probable class of the whole region" in said


def test_what_is_not_so_is_refuted() -> None:
    """Another class, a larger margin, a larger region, the other side, a class that is not there."""
    made = margin_certificate()
    [claim] = made.claims
    own = claim.quantity.own
    for other in set(range(5)) - {own}:
        assert not check_certificate(replace(made, claims=(replace(claim, quantity=MarginQuantity(other)),))).confirmed
    assert not check_certificate(replace(made, claims=(replace(claim, outer=claim.outer + 1e-6),))).confirmed
    wide = replace(made.region, lower=made.region.lower - 2.0, upper=made.region.upper + 2.0)
    assert not check_certificate(replace(made, region=wide)).confirmed
    assert not check_certificate(replace(made, claims=(replace(claim, sign=1),))).confirmed
    for quantity in (MarginQuantity(5), MarginQuantity(-1)):
        with pytest.raises(MalformedError):
            check_certificate(replace(made, claims=(replace(claim, quantity=quantity),)))


def test_a_margin_that_overflows_is_not_proved() -> None:
    zero, huge = np.zeros(2), np.array([1.0, np.inf])
    line, table = np.zeros((2, 1)), np.zeros((2, 1, 1))
    own = Moment(zero, line, table, None, zero, zero, huge, huge)
    rival = Moment(zero, line, table, None, zero, zero, zero, zero)
    with np.errstate(invalid="ignore"):
        least = plain_margin._by_ranges([(1.0, own), (-1.0, rival)], -1)
    assert 0.9 < least[0] <= 1.0 and np.isnan(least[1])
