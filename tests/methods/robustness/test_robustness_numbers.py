"""Bounds, checkers and searches of classifiers give the numbers they gave: see tests/golden.py."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.certificates.checker import check_certificate
from gpsuite.certificates.plain_bound import PlainBound
from gpsuite.certificates.verification import check_levels, describe
from gpsuite.methods.robustness.bounding_curves import bounding_curves
from gpsuite.methods.robustness.certification import stored_model
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.point_search import PointSearch, probability_range
from gpsuite.methods.robustness.search.attacks import gpfgs, gpjm, strong_attack
from gpsuite.methods.robustness.search.regions import Region, box, l1_ball, l2_ball, linf_ball
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.composite import CompositeKernel
from tests import golden
from tests.arrays import Array
from tests.methods.robustness.certified_point import BUILD, certify_range, its_dataset, origin_of
from tests.models.gpc_problems import fitted_posterior, two_classes

KERNELS = ("squared_exponential", "matern32", "matern52")
LINK_NAMES = ("probit", "logistic", "squeezed_probit")
PACKAGES = ("gpsuite.methods.robustness", "gpsuite.certificates")
CENTRE = np.array([0.2, 0.1])


SUM = CompositeKernel(
    (
        (0.5, (("squared_exponential", (1.2, 0.7)), ("matern32", (0.0, 1.1)))),
        (0.4, (("matern52", (0.9, 0.6)),)),
        (0.1, ()),
    )
)


def classifier(kernel: str | CompositeKernel, link: str, inputs: int, rank: int = 9, n: int = 9) -> GPCPosterior:
    """Return a classifier of data well apart, whose reduction has weights of both signs if not of full rank."""
    rng = np.random.default_rng([inputs, rank, n])
    X = rng.permuted(np.linspace(-1.5, 1.5, n * inputs)).reshape(n, inputs)
    root = 0.3 * rng.standard_normal((rank, n))
    weights = -np.ones(rank) if rank == n else np.linspace(-0.9, 0.4, rank)
    lengths = np.linspace(0.8, 1.3, inputs)
    return GPCPosterior(
        X, kernel, 1.7, lengths, rng.standard_normal(n), root, weights, 1.0 if rank == n else 3.0,
        LINKS.get(link),
    )  # fmt: skip


def boxes(posterior: GPCPosterior, free: Array) -> tuple[Array, Array]:
    """Return a point, a flat box, a small, an ordinary and a large one, and one far away."""
    lengths, d = posterior.lengthscales[free], len(free)
    half = np.outer([0.0, 0.02, 0.02, 0.3, 4.0, 0.5], lengths) * (1.0 + 0.1 * np.arange(d))
    half[1, 0] = 0.0
    centre = posterior.X[:6, free] + np.outer([0.1, 0.0, -0.2, 0.3, 0.0, 25.0], lengths)
    return centre - half, centre + half


def bounds(make: Any, kernel: str | CompositeKernel, link: str, inputs: int, rank: int = 9) -> list[object]:
    posterior = classifier(kernel, link, inputs, rank)
    free = np.arange(inputs) if inputs < 3 else np.delete(np.arange(inputs), 1)
    bound = make(posterior, posterior.X[0] + 0.1, free)
    lo, hi = boxes(posterior, free)
    found = bound.bounds(lo, hi)
    at = bound.evaluate(0.5 * (lo + hi))
    found = [found, at, bound.to_probability(found.low), bound.outward_probability(found.low, found.high)]
    points = lo[3] + np.linspace(0.0, 1.0, 4)[:, None] * (hi[3] - lo[3])
    return [*found, bounding_curves(bound, posterior.link, lo[3], hi[3], points)]


def plain(kernel: str, link: str, inputs: int, rank: int = 9) -> list[object]:
    """The checker's bound on both sides, below, at and above the scores."""
    posterior = classifier(kernel, link, inputs, rank)
    free = np.arange(inputs) if inputs < 3 else np.delete(np.arange(inputs), 1)
    bound = PlainBound(stored_model(posterior).binary, posterior.X[0] + 0.1, free)
    lo, hi = boxes(posterior, free)
    at = bound.at(0.5 * lo + 0.5 * hi)
    score = np.mean(at, axis=0)
    levels = (score, score - 0.3, score + 0.3) if link == "logistic" else (score, -score, score - 1.0, score + 1.0)
    return [at, *(bound.bound(lo, hi, sign, level) for sign in (-1, 1) for level in levels)]


def fitted(kernel: str, link: str) -> GPCPosterior:
    return fitted_posterior("laplace", kernel, LINKS.get(link))[0]


def searched(bound: str, kernel: str, link: str, region: Region) -> list[object]:
    """Range and verdict after a few boxes."""
    search = PointSearch(fitted(kernel, link), CENTRE, np.arange(2), bound)
    span, verdict = search.range(region, 1e-3, Budget(boxes=16)), search.decide(region, Budget(boxes=10))[0]
    return [
        *([each.inner, each.outer, each.witness, each.boxes, each.status] for each in (span.minimum, span.maximum)),
        verdict,
    ]


def attacked(link: str) -> list[object]:
    posterior, region = classifier("squared_exponential", link, 3), linf_ball(np.array([0.3, -0.2, 0.1]), 0.3)
    rng = np.random.default_rng(0)
    return [gpfgs(posterior, region), gpjm(posterior, region), gpjm(posterior, region, 1),
            strong_attack(posterior, region, 1, 3, rng), strong_attack(posterior, region, -1, 3, rng)]  # fmt: skip


def certificate_checked(kernel: str, link: str, norm: str) -> list[object]:
    region = BUILD[norm](CENTRE, 0.1)
    span = probability_range(fitted(kernel, link), region, 0.05, Budget(boxes=100))
    origin = origin_of(two_classes(0)[1])
    found = certify_range(fitted(kernel, link), region, (span.minimum, span.maximum), slack=0.05, origin=origin)
    return [check_certificate(found), check_levels(found, its_dataset()), list(describe(found, proved=True))]


SCENARIOS: dict[str, golden.Scenario] = {
    **{
        f"level bound, {kernel}, {link}, {inputs} inputs, rank {rank}": partial(
            bounds, level_bound, kernel, link, inputs, rank
        )
        for kernel, link, inputs, rank in [
            *((kernel, "probit", inputs, 9) for kernel in KERNELS for inputs in (1, 2, 5)),
            *((kernel, "logistic", 2, rank) for kernel in KERNELS for rank in (9, 4)),
            ("matern52", "squeezed_probit", 2, 9),
        ]
    },
    "level bound, sum of products": partial(bounds, level_bound, SUM, "probit", 2),
    **{
        f"paper bound, {link}, {inputs} inputs, rank {rank}": partial(
            bounds, paper_bound, "squared_exponential", link, inputs, rank
        )
        for link, inputs, rank in [("probit", 2, 9), ("logistic", 3, 9), ("probit", 1, 4), ("squeezed_probit", 2, 4)]
    },
    **{
        f"plain bound, {kernel}, {link}, rank {rank}": partial(plain, kernel, link, 3 if rank == 4 else 2, rank)
        for kernel, link, rank in [*itertools.product(KERNELS, ("probit",), (9, 4)),
                                   *itertools.product(KERNELS, ("logistic",), (9,)),
                                   ("squared_exponential", "squeezed_probit", 4)]
    },
    "search, cube": partial(searched, "rkhs_taylor", "matern52", "logistic", linf_ball(CENTRE, 0.4)),
    "search, ball": partial(searched, "rkhs_taylor", "squared_exponential", "probit", l2_ball(CENTRE, 0.5)),
    "search, diamond": partial(searched, "paper", "squared_exponential", "probit", l1_ball(CENTRE, 0.6)),
    "search, box": partial(searched, "rkhs_taylor", "matern32", "probit", box(CENTRE, [0.3, 0.05], (-1.0, 0.4))),
    **{f"attacks, {link}": partial(attacked, link) for link in ("probit", "logistic")},
    **{
        f"check, {kernel}, {link}, {norm}": partial(certificate_checked, kernel, link, norm)
        for kernel, link, norm in [
            ("squared_exponential", "probit", "box"),
            ("matern32", "probit", "l2"),
            ("matern52", "logistic", "l1"),
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_numbers_are_the_stored_ones(name: str) -> None:
    golden.check(__file__, name, SCENARIOS[name], PACKAGES)
