"""Random (model, region, point) triples of several classes, judged in double precision and, if close, in extended.

The double oracle is fifteen times cheaper, and decides wherever no claim is within its error of the truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from gpsuite.budget import Budget
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.search.regions import Region, interval_box, l1_ball, l2_ball
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from tests.arrays import Array
from tests.models.softmax_oracle import DOUBLE_ERROR, Long, direct_probabilities, extended_latent, utility_probabilities
from tests.models.softmax_problems import random_softmax_posterior, separable_softmax_posterior

ROUNDING = 2e-15  # of the extended oracle, and of its result as a float
CLOSE = 3 * DOUBLE_ERROR  # a margin is a difference of two
Claimed = tuple[Callable[[Any], Any], Any, Any]  # what of probabilities [B, C], its lower and upper ends
REGIONS, POINTS = 8, 24
BOXES = {True: 12, False: 4}  # of a search: of up to five classes, of more


def true_probabilities(posterior: MultiClassPosterior, points: Array, real: Any = Long) -> Any:
    """Return the class probabilities [B, C]; latent values are in extended precision for either `real`.

    Four or more classes must be independent but for one common factor, as `separable_softmax_posterior` has them.
    """
    mean, covariance = extended_latent(posterior, points)
    if posterior.n_classes < 4:
        return np.array([direct_probabilities(m, S, real) for m, S in zip(mean, covariance, strict=True)])
    shared = np.sqrt(max(Long(posterior.weights[-1]), Long(0))) * (
        _kernel_sums(posterior, points) if posterior.weights[-1] > 0 else np.zeros_like(mean)
    )
    found = []
    for m, S, v in zip(mean, covariance, shared, strict=True):
        own = np.sqrt(np.maximum(np.diagonal(S) - v * v, Long(0)))
        found.append(utility_probabilities(m, own, v, real))
    return np.array(found)


def _kernel_sums(posterior: MultiClassPosterior, points: Array) -> Any:
    """Return the common factor's weight in each latent function, [B, C]: the last row of the root times k."""
    only = MultiClassPosterior(
        posterior.X, posterior.kernel, posterior.variance, posterior.lengthscales, posterior.root[-1],
        np.zeros((0, posterior.n_classes, len(posterior.X))), np.zeros(0), 1.0,
    )  # fmt: skip
    return extended_latent(only, points)[0]


def drawn_region(rng: np.random.Generator, posterior: MultiClassPosterior) -> Region:
    """Return a box or ball near the data: of no width, thin, ordinary or wide; all inputs are free."""
    n, d = posterior.X.shape
    scale = posterior.lengthscales
    centre = posterior.X[rng.integers(n)] + 0.5 * rng.standard_normal(d) * scale
    size = 10.0 ** rng.uniform(-6.0, 0.3)
    if rng.random() < 0.3:
        ball = l1_ball if rng.random() < 0.5 else l2_ball
        return ball(centre, float(size * scale.min()))
    half = size * rng.random(d) * scale / np.sqrt(d)
    half[rng.random(d) < 0.1] = 0.0
    return interval_box(centre, centre - half, centre + half)


def study(seed: list[int], C: int, kernel: str, triples: int) -> Counter[str]:
    """Return the counts over so many triples; `outside` and `overclaimed` are faults, `extended` needed digits."""
    rng = np.random.default_rng([*seed, C])
    counts: Counter[str] = Counter()
    while counts["triples"] < triples:
        separable = C > 3 or rng.random() < 0.5
        draw = separable_softmax_posterior if separable else random_softmax_posterior
        n, d = int(rng.integers(1, 13)), int(rng.integers(1, 5))
        posterior = draw(rng, kernel, C, n, d, (-2.0, 1.5 if C < 4 else 0.5))
        for _ in range(REGIONS):
            counts.update(_judge(rng, posterior, drawn_region(rng, posterior)))
    return counts


def _judge(rng: np.random.Generator, posterior: MultiClassPosterior, region: Region) -> Counter[str]:
    """Set bounds over the region's box, at its points and of a search against the truth at points of the region."""
    C, d = posterior.n_classes, len(region.free)
    own = int(rng.integers(C))
    rival = (own + 1 + int(rng.integers(C - 1))) % C
    search = PointSearch(posterior, region.centre, region.free)
    share = rng.random((POINTS, d))
    share[::2] = np.round(share[::2])
    points = region.project(region.lower + share * (region.upper - region.lower))
    found = search.range(region, 1e-3, Budget(boxes=BOXES[C <= 5]), own)
    reached = [each for each in (found.minimum, found.maximum) if each.witness is not None]
    for each in reached:
        assert each.witness is not None
        points = np.vstack([points, each.witness])
    bound, counts = search.bound, Counter({"triples": POINTS, "regions": 1, "witnesses": len(reached)})
    box, local = (region.lower[None], region.upper[None]), bound.at(points)
    ends, margin = bound.class_bounds(*box, own), bound.margin_bounds(*box, own, rival)
    # what a witness attains is at least the inner bound of a maximum, at most that of a minimum
    attained = np.tile([[-np.inf], [np.inf]], len(points))
    for place, each in enumerate(reached, POINTS):
        attained[int(each.sign < 0), place] = each.inner

    def p_own(p: Any) -> Any:
        return p[:, own]

    def lead(p: Any) -> Any:
        return p[:, own] - p[:, rival]

    claims: dict[str, Claimed] = {
        "outside: class": (p_own, ends.low, ends.high),
        "outside: margin": (lead, margin.low, margin.high),
        "outside: range": (p_own, found.minimum.outer, found.maximum.outer),
        "outside: at": (p_own, *bound.class_of(local, own)),
        "outside: margin at": (lead, *bound.margin_of(local, own, rival)),
        "overclaimed": (p_own, *attained),
    }
    p, counts["extended"] = settled_probabilities(posterior, region.embed(points), [*claims.values()])
    for name, claim in claims.items():
        counts[name] += outside(p, claim)
    counts["total"] += int(np.sum(np.abs(p.sum(axis=1) - 1) > DOUBLE_ERROR))
    return counts


def settled_probabilities(posterior: MultiClassPosterior, points: Array, claims: list[Claimed]) -> tuple[Any, int]:
    """Return the class probabilities [B, C], extended where double precision leaves a claim open, and how many are."""
    p = true_probabilities(posterior, points, np.float64).astype(Long)
    close = np.zeros(len(p), bool)
    for of, *ends in claims:
        for end in ends:
            close |= ~(np.abs(of(p) - end) > CLOSE)  # NaN is close
    if close.any():
        p[close] = true_probabilities(posterior, points[close])
    return p, int(close.sum())


def outside(p: Any, claim: Claimed) -> int:
    """Return how many of what a claim is about lie outside its ends; NaN counts too."""
    of, low, high = claim
    return int(np.sum(~((low <= of(p) + ROUNDING) & (of(p) - ROUNDING <= high))))


def faults(counts: Counter[str]) -> int:
    """Return how many claims were wrong."""
    return sum(counts[name] for name in counts if name.startswith(("outside", "overclaimed", "total")))
