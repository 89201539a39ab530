"""Boundary of a region along rays from its estimate: exact for quadratic objectives, otherwise by bisection.

Along d, Z_0 <= Z_i is a t^2 + 2 b t + c <= 0 with c <= 0. So each perturbation allows steps up to a first root. With a
weighting other than the inverse Hessian it may also allow steps beyond a second root. A step is in the region if at
least q perturbations allow it. Steps are reported as enclosures, infinite if unbounded.

Equation: derived, boundary along rays
Equation: derived, unbounded regions
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag, solve_triangular

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.perturbation.ellipsoid import PerturbedQuadratic, largest
from gpsuite.methods.perturbation.objectives import finite, spectrum
from gpsuite.methods.perturbation.ranks import TIE

# Relative half-width of an exact step's enclosure: roots of quadratics formed in float64.
_SLACK = 1e-10
_ROUNDINGS = 8.0  # rounding of the quadratic's coefficients, in units of the last place times width and condition
_DOUBLINGS = 40
# Bisections of a factor 2: the enclosure's relative width ends at about 2^-34.
_BISECTIONS = 34
# Lengths of a direction a: |a|, the RKHS norm of its function, the norm of its values at the data.
KernelMetric = Literal["coefficients", "rkhs", "values"]
_POWER: dict[KernelMetric, float] = {"rkhs": -0.5, "values": -1.0}


@dataclass(frozen=True, eq=False)
class RayBoundary:
    """Largest steps t with centre + t direction in the region.

    Attributes:
        inside: a step known to be inside, shape [J]. Minus infinity if none is. For an unbounded ray infinity (exact
            method) or the largest step tried.
        outside: upper bound of the region's largest step, shape [J]. Infinite if unbounded, or if the metric is so
            ill-conditioned that rounding cannot decide.
        method: exact, or bisection. Bisection finds gaps and returns of the region only on a grid of doubled steps.
        returning: share of rays on which the region ended and returned on the bisection's grid, 0 for exact.
    """

    centre: FloatArray
    directions: FloatArray
    inside: FloatArray
    outside: FloatArray
    method: Literal["exact", "bisection"]
    returning: float = 0.0

    @property
    def unbounded(self) -> BoolArray:
        """Rays along which no end was found, shape [J]."""
        return self.inside == np.inf if self.method == "exact" else np.isinf(self.outside)

    @property
    def unbounded_share(self) -> float:
        return float(np.mean(self.unbounded))

    @property
    def members(self) -> FloatArray:
        """Boundary points just inside along the bounded rays, shape [J', p]."""
        kept = ~self.unbounded & (self.inside >= 0.0)
        return np.asarray(self.centre + self.inside[kept, None] * self.directions[kept])


def exact_boundary(
    quadratic: PerturbedQuadratic, q: int, directions: npt.ArrayLike, limits: FloatArray | None = None
) -> RayBoundary:
    """Return the exact boundary of the region of p = 1 - q/m along rays from its estimate.

    Raises:
        ValueError: on q outside its range or a direction that is zero or not finite.
    """
    rays = _directions(directions)
    width = quadratic.estimate.size
    # largest addition to Z_i - Z_0 by ties and rounding, as a share of Z_0
    added = quadratic.tie_width + _ROUNDINGS * float(np.finfo(np.float64).eps) * width * quadratic.condition
    cap = np.full(len(rays), np.inf) if limits is None else limits
    wins = ~quadratic.perturbations.before_reference()
    steps = []
    for first, again in _roots(quadratic, rays, added):
        # if Z_i = Z_0 everywhere, the tie-breaking permutation decides for the whole ray
        first[quadratic.unmoved] = np.where(wins, np.inf, -np.inf)[quadratic.unmoved, None]
        again[quadratic.unmoved] = np.inf
        steps.append(_reach(np.minimum(first, cap), np.where(again < cap, again, np.inf), cap, q))
    outside = np.maximum(steps[1], 0.0) * (1.0 + _SLACK)
    inside = np.minimum(steps[0] * (1.0 - _SLACK), outside)
    return RayBoundary(quadratic.estimate, rays, inside, outside, "exact")


def bisected_boundary(
    contains: Callable[[FloatArray], BoolArray],
    centre: FloatArray,
    directions: npt.ArrayLike,
    limits: FloatArray | None = None,
    largest_step: float = 2.0**20,
) -> RayBoundary:
    """Return the boundary along rays by only membership tests: steps doubled 40 times up to a cap, then bisection.

    This is for objectives without closed form (support vector regression, LASSO). Their regions need not be
    star-shaped. The last member on the grid of doubled steps is taken. `returning` reports the share of rays on which
    an earlier step was no member.

    Args:
        largest_step: a ray with a member at this step is reported as unbounded.

    Raises:
        ValueError: on a direction that is zero or not finite.
    """
    rays = _directions(directions)
    limit = np.full(len(rays), np.inf) if limits is None else limits
    cap = np.where(np.isfinite(limit), limit * (1.0 - _SLACK), largest_step)
    grid = cap * 2.0 ** np.arange(-_DOUBLINGS, 1)[:, None]
    at_centre = bool(contains(centre[None])[0])
    member = np.array([contains(centre + t[:, None] * rays) for t in grid])
    last = np.where(member.any(axis=0), len(grid) - 1 - np.argmax(member[::-1], axis=0), -1)
    returning = float(np.mean(member.sum(axis=0) < last + 1))
    rows = np.arange(len(rays))
    low = np.where(last >= 0, grid[last, rows], 0.0)
    high = np.where(last < len(grid) - 1, grid[np.minimum(last + 1, len(grid) - 1), rows], low)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        is_member = contains(centre + middle[:, None] * rays)
        low, high = np.where(is_member, middle, low), np.where(is_member, high, middle)
    low = np.where((last < 0) & (low <= 0.0) & (not at_centre), -np.inf, low)
    high = np.where(last == len(grid) - 1, limit * (1.0 + _SLACK), high)
    return RayBoundary(centre, rays, low, high, "bisection", returning)


def _directions(directions: npt.ArrayLike) -> FloatArray:
    rays = finite("directions", directions, 2)
    if not np.all(np.any(rays != 0.0, axis=1)):
        raise ValueError("a direction is zero")
    return rays


def _roots(quadratic: PerturbedQuadratic, rays: FloatArray, added: float) -> list[tuple[FloatArray, FloatArray]]:
    """Return where each inequality first ends and where it holds again, [I, J], infinite if never.

    The result has two such pairs: as computed, and with Z_i increased by the share `added` of Z_0.
    """
    shape = (quadratic.count, len(rays))
    found = [(np.empty(shape), np.empty(shape)) for _ in range(2)]
    slope = quadratic.slope @ rays.T
    scale = np.einsum("rj,rj->j", slope, slope)
    few = len(rays) < rays.shape[1]
    for part, D in quadratic.chunks(quadratic.design @ rays.T if few else quadratic.design):
        along = D if few else np.matmul(D, rays.T)
        r = quadratic.shifts[part]
        a = np.einsum("irj,irj->ij", 2.0 * slope - along, along)
        b = np.einsum("irj,ir->ij", along - slope, r)
        c = -np.einsum("ir,ir->i", r, r)[:, None]
        flat, c = TIE * scale, np.broadcast_to(c, a.shape)
        for (first, again), share in zip(found, (0.0, added), strict=True):
            first[part], again[part] = _quadratic_steps(a - share * scale, b, c, flat)
        # also without curvature b > 0 ends the step, if Z_i falls below Z_0 by more than a tie somewhere
        inner, ends = found[0][0], (np.abs(a) <= flat) & (b > 0.0) & (b * b > -c * flat)
        inner[part] = np.where(ends, -c / np.where(ends, b + np.sqrt(b * b - c * flat), 1.0), inner[part])
    return found


def _quadratic_steps(a: FloatArray, b: FloatArray, c: FloatArray, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return first and second ends of {t >= 0 : a t^2 + 2 b t + c <= 0}, c <= 0. If |a| <= flat there is no end."""
    discriminant = b**2 - a * c
    root = np.sqrt(np.maximum(discriminant, 0.0))
    rising = b + root > 0.0
    near = -c / np.where(rising, b + root, 1.0)
    far = (root - b) / np.where(a > flat, a, 1.0)
    upward = np.where(b > 0.0, near, far)
    crosses = (a < -flat) & (b > 0.0) & (discriminant > 0.0)
    first = np.where(a > flat, upward, np.where(crosses, near, np.inf))
    again = np.where(crosses, (b + root) / np.where(crosses, -a, 1.0), np.inf)
    return first, again


def _reach(first: FloatArray, again: FloatArray, cap: FloatArray, q: int) -> FloatArray:
    """Return the largest t <= cap that at least q of the sets [0, first] and [again, cap] contain, shape [J]."""
    steps = largest(first, q)
    returns = np.isfinite(again)
    for j in np.flatnonzero(returns.any(axis=0)):
        candidates = np.append(first[:, j], cap[j])
        held = (first[:, j] >= candidates[:, None]).sum(axis=1)
        held += (returns[:, j] & (again[:, j] <= candidates[:, None])).sum(axis=1)
        steps[j] = candidates[held >= q].max(initial=-np.inf)
    return steps


# Members of a region, sampled along rays from the estimate.
#
# Rays have advantages over a random walk inside the region. They are independent of each other and need no burn-in.
# They treat quadratic and other objectives in the same way. They detect unboundedness instead of following it. They end
# at the boundary, where the extremes of a band are.
#
# Rays cover the part of the region that is visible from the estimate. This is the whole region if it is star-shaped, as
# for quadratic objectives under inverse-Hessian weighting. Directions isotropic in a named metric reach the extremes of
# many coefficients slowly. So a band of sampled members is an inner band.
@dataclass(frozen=True, eq=False)
class Members:
    """Coefficients found to be in the region.

    Attributes:
        alphas: shape [J, p], each confirmed by the membership test.
        unbounded_share: share of the rays without an end. They give no boundary point.
        refused: number of points that the membership test did not confirm (gaps of a region without star shape).
    """

    alphas: FloatArray
    sampler: str
    rays: int
    unbounded_share: float
    refused: int


def isotropic_directions(count: int, basis: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return `count` uniform unit vectors in the coordinates c of alpha = basis c [p, k], shape [count, p].

    With the inverse of an ellipsoid's triangle as basis, directions are isotropic in the region's own metric.
    """
    z = rng.normal(size=(count, basis.shape[1]))
    return np.asarray((z / np.linalg.norm(z, axis=1)[:, None]) @ basis.T)


def kernel_directions(
    count: int, gram: FloatArray, metric: KernelMetric, rng: np.random.Generator, free: int = 0
) -> FloatArray:
    """Return directions isotropic in a metric of kernel coefficients, shape [count, free + n].

    Args:
        gram: K, shape [n, n]. Its directions below rounding are left out, except under `coefficients`.
        free: number of leading coefficients next to the kernel's (a bias), each of length 1.
    """
    if metric == "coefficients":
        return isotropic_directions(count, np.eye(free + len(gram)), rng)
    values, vectors = spectrum(gram)
    return isotropic_directions(count, block_diag(np.eye(free), vectors.T * values ** _POWER[metric]), rng)


def single_point_directions(gram: FloatArray) -> FloatArray:
    """Return K^-1 e_j and -K^-1 e_j, shape [2n, n]: they change the function at one datum and at no other.

    Kernel models with a coefficient for each datum are unbounded along these directions for confidences well above 1/2.
    """
    rows = np.linalg.solve(gram, np.eye(len(gram))).T
    return np.asarray(np.concatenate([rows, -rows]))


def touching_directions(triangle: FloatArray, features: FloatArray) -> FloatArray:
    """Return +-(R'R)^-1 phi(x) at unit length in R, [2J, p]: there an ellipsoid is widest at x. No phi(x) may be 0."""
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
    """Return the boundary points of the rays from the estimate, and `inner` points within each bounded ray.

    Inner steps are t u^(1/p) with u uniform. So they are uniform in volume within the cone around each ray.
    """
    ends = boundary.members
    share = rng.uniform(size=(inner, len(ends), 1)) ** (1.0 / len(boundary.centre))
    points = np.concatenate([ends, (boundary.centre + share * (ends - boundary.centre)).reshape(-1, ends.shape[1])])
    kept = contains(points) if len(points) else np.zeros(0, dtype=np.bool_)
    name = f"rays, {metric} directions, {boundary.method} ends"
    refused = int(np.count_nonzero(~kept))
    return Members(points[kept], name, len(boundary.directions), boundary.unbounded_share, refused)
