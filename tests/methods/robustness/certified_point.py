"""One small certified range, shared by the tests of certificates, their checker and the command."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from gpsuite.budget import Budget
from gpsuite.certificates.certificate import POSITIVE, Certificate, Claim, Origin
from gpsuite.certificates.plain_model import PlainModel
from gpsuite.data.dataset import Dataset
from gpsuite.methods.robustness.certification import certify, stored_model
from gpsuite.methods.robustness.point_search import probability_range
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region, l1_ball, l2_ball, linf_ball
from gpsuite.methods.robustness.verdict import ClassRange
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS
from tests.arrays import Array
from tests.models.gpc_problems import fitted_posterior, two_classes

BUILD = {"box": linf_ball, "l2": l2_ball, "l1": l1_ball}
CENTRE = (0.2, 0.1)
CONTENT = 64 * "7"


def certified(
    kernel: str = "squared_exponential", link: str = "probit", norm: str = "box", radius: float = 0.5
) -> tuple[GPCPosterior, Region, ClassRange, Certificate]:
    """Return a posterior, a region, its range within 0.002 and the certificate, of a few boxes."""
    posterior, y = fitted_posterior("laplace", kernel, LINKS.get(link))
    region = BUILD[norm](CENTRE, radius)
    found = probability_range(posterior, region, 0.002, Budget(boxes=4000))
    origin = origin_of(y)
    certificate = certify_range(posterior, region, (found.minimum, found.maximum), slack=0.001, origin=origin)
    return posterior, region, found, certificate


def plain_model(posterior: GPCPosterior) -> PlainModel:
    """Return the classifier that a certificate of two classes stores."""
    return stored_model(posterior).binary


def certify_range(
    posterior: GPCPosterior, region: Region, extrema: Iterable[Extremum], slack: float = 1e-3, **options: Any
) -> Certificate:
    """Return the certificate of searches of the positive class' probability."""
    return certify(posterior, region, [(POSITIVE, extremum) for extremum in extrema], slack, **options)


def origin_of(
    y: Array, inference: str = "laplace", sites: Array | None = None, X: Array | None = None, jitter: float = 0.0
) -> Origin:
    """Return where a posterior of `fitted_posterior` and the point `CENTRE` come from: `its_dataset`."""
    n = len(y)
    return Origin(
        dataset="two classes",
        content=CONTENT,
        row=n,
        outputs=("no", "yes"),
        inputs=("width", "height"),
        inference=inference,
        rows=np.arange(n),
        targets=(y + 1.0) / 2.0,
        offset=np.zeros(2),
        scale=np.ones(2),
        sites=np.empty((2, 0)) if sites is None else sites,
        X=np.empty((0, 2)) if X is None else X,
        jitter=jitter,
    )


def its_dataset(**changes: Any) -> Dataset:
    """Return the dataset of `fitted_posterior`, the point in its last row."""
    X, y = two_classes(0)
    parts = {
        "name": "two classes",
        "task": "classification",
        "X": np.vstack([X, CENTRE]),
        "y": np.append((y + 1) / 2, 0.0)[:, None],
        "input_names": ("width", "height"),
        "target_names": ("label",),
        "content_hash": CONTENT,
        "label_names": ("no", "yes"),
    }
    return Dataset(**parts | changes)


@cache
def small_certificate() -> Certificate:
    """Return the certificate of the default case."""
    return certified()[3]


def with_claim(certificate: Certificate, index: int, **changes: Any) -> Certificate:
    """Return the certificate with one of its claims changed."""
    claims = list(certificate.claims)
    claims[index] = dataclasses.replace(claims[index], **changes)
    return dataclasses.replace(certificate, claims=tuple(claims))


def changed(array: Array, index: Any, value: Any) -> Array:
    """Return a copy with one entry changed."""
    copy = array.copy()
    copy[index] = value
    return copy


def worst_leaf(claim: Claim) -> int:
    """Return the place in the leaves' table of the one that limits the claim."""
    return int(np.argmax(claim.sign * claim.leaf_bound))
