"""One small certified range, shared by the tests of certificates, their checker and the command."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np

from gpsuite.budget import Budget
from gpsuite.methods.robustness.certificate import Certificate, Claim
from gpsuite.methods.robustness.certify import certify
from gpsuite.methods.robustness.regions import Region, l1_ball, l2_ball, linf_ball
from gpsuite.methods.robustness.verdict import ProbabilityRange, probability_range
from gpsuite.models.gpc import GPCPosterior
from gpsuite.models.links import LINKS
from tests.models.gpc_problems import fitted_posterior

BUILD = {"box": linf_ball, "l2": l2_ball, "l1": l1_ball}
CENTRE = (0.2, 0.1)


def certified(
    kernel: str = "squared_exponential", link: str = "probit", norm: str = "box", radius: float = 0.5
) -> tuple[GPCPosterior, Region, ProbabilityRange, Certificate]:
    """Return a posterior, a region, its range within 0.02 and the certificate."""
    posterior = fitted_posterior("laplace", kernel, LINKS.get(link))[0]
    region = BUILD[norm](CENTRE, radius)
    found = probability_range(posterior, region, 0.02, Budget(boxes=4000))
    certificate = certify(posterior, region, (found.minimum, found.maximum), slack=0.01)
    return posterior, region, found, certificate


@cache
def small_certificate() -> Certificate:
    """Return the certificate of the default case."""
    return certified()[3]


def with_claim(certificate: Certificate, index: int, **changes: Any) -> Certificate:
    """Return the certificate with one of its claims changed."""
    claims = list(certificate.claims)
    claims[index] = dataclasses.replace(claims[index], **changes)
    return dataclasses.replace(certificate, claims=tuple(claims))


def changed(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    """Return a copy with one entry changed."""
    copy = array.copy()
    copy[index] = value
    return copy


def worst_leaf(claim: Claim) -> int:
    """Return the place in the leaves' table of the one that limits the claim."""
    return int(np.argmax(claim.sign * claim.leaf_bound))
