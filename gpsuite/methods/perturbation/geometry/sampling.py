"""Members of a region, sampled along rays from the estimate.

Why rays and not a random walk inside the region: each ray is independent of the others, needs no burn-in, treats
quadratic and other objectives alike, shows unboundedness instead of wandering off along it, and ends at the boundary,
where the extremes of a band lie. What rays cover: the part of the region visible from the estimate; all of it when
it is star-shaped, as it is for quadratic objectives under inverse-Hessian weighting. Directions isotropic in a
named metric reach the extremes of many coefficients slowly, so that a band of sampled members is an inner one.

Equation: derived, boundary along rays
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.perturbation.geometry.rays import RayBoundary
from gpsuite.methods.perturbation.objectives.base import spectrum

KernelMetric = Literal["coefficients", "rkhs", "values"]
"""Length of a direction a: |a|; the RKHS norm of its function; the norm of its values at the data."""
_POWER: dict[KernelMetric, float] = {"rkhs": -0.5, "values": -1.0}


@dataclass(frozen=True, eq=False)
class Members:
    """Coefficients found to be in the region.

    Attributes:
        alphas: shape [J, p], each confirmed by the membership test.
        sampler: how they were found, for captions.
        rays: number of rays drawn.
        unbounded_share: share of the rays without an end; they give no boundary point.
        refused: number of points that the membership test did not confirm (gaps of a region without star shape).
    """

    alphas: FloatArray
    sampler: str
    rays: int
    unbounded_share: float
    refused: int


def isotropic_directions(count: int, basis: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return `count` uniform unit vectors in the coordinates c of alpha = basis c [p, k], shape [count, p].

    The inverse of an ellipsoid's triangle as basis gives directions isotropic in the region's own metric.
    """
    z = rng.normal(size=(count, basis.shape[1]))
    return np.asarray((z / np.linalg.norm(z, axis=1)[:, None]) @ basis.T)


def kernel_directions(
    count: int, gram: FloatArray, metric: KernelMetric, rng: np.random.Generator, free: int = 0
) -> FloatArray:
    """Return directions isotropic in a metric of kernel coefficients, shape [count, free + n].

    Args:
        count: number of directions.
        gram: K, shape [n, n]; its directions below rounding are left out, except under `coefficients`.
        metric: what is isotropic.
        rng: source of the directions.
        free: number of leading coefficients beside the kernel's (a bias), each of length 1.
    """
    if metric == "coefficients":
        return isotropic_directions(count, np.eye(free + len(gram)), rng)
    values, vectors = spectrum(gram)
    return isotropic_directions(count, block_diag(np.eye(free), vectors.T * values ** _POWER[metric]), rng)


def single_point_directions(gram: FloatArray) -> FloatArray:
    """Return K^-1 e_j and -K^-1 e_j, shape [2n, n]: they move the function at one datum and leave it at all others.

    Kernel models with a coefficient for each datum are unbounded along them for confidences well above 1/2.
    """
    rows = np.linalg.solve(gram, np.eye(len(gram))).T
    return np.asarray(np.concatenate([rows, -rows]))


def touching_directions(triangle: FloatArray, features: FloatArray) -> FloatArray:
    """Return +-(R'R)^-1 phi(x) at unit length in R, shape [2J, p]: where an ellipsoid is widest at x.

    Args:
        triangle: R, shape [p, p].
        features: rows phi(x), shape [J, p], none of them zero.
    """
    half = np.asarray(solve_triangular(triangle.T, features.T, lower=True))
    rows = np.asarray(solve_triangular(triangle, half / np.linalg.norm(half, axis=0))).T
    return np.asarray(np.concatenate([rows, -rows]))


def sample_members(
    boundary: RayBoundary,
    contains: Callable[[FloatArray], BoolArray],
    metric: str,
    rng: np.random.Generator,
    inner: int = 0,
) -> Members:
    """Return the estimate's rays' boundary points and `inner` points within each bounded ray.

    Inner steps are t u^(1/p) with u uniform: uniform in volume within the cone about each ray.

    Args:
        boundary: of the region.
        contains: membership of coefficient rows [J, p].
        metric: name of the directions' distribution, for captions.
        rng: source of the inner steps.
        inner: number of inner points a ray.
    """
    ends = boundary.members
    share = rng.uniform(size=(inner, len(ends), 1)) ** (1.0 / len(boundary.centre))
    points = np.concatenate(
        [ends, (boundary.centre + share * (ends - boundary.centre)).reshape(-1, ends.shape[1])]
    )
    kept = contains(points) if len(points) else np.zeros(0, dtype=np.bool_)
    name = f"rays, {metric} directions, {boundary.method} ends"
    refused = int(np.count_nonzero(~kept))
    return Members(points[kept], name, len(boundary.directions), boundary.unbounded_share, refused)
