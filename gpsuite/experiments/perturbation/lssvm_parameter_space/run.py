"""One region of perturbation/lssvm_parameter_space with its ellipsoids, and the checks of its shape."""

from __future__ import annotations

import numpy as np
from scipy.special import chdtri

from gpsuite.arrays import FloatArray
from gpsuite.data.generators import FUNCTIONS, kernel_regression
from gpsuite.experiments.base import Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.perturbation.lssvm_parameter_space.plan import RegionTask, RidgeTask
from gpsuite.experiments.perturbation.shared.linear import compass
from gpsuite.methods.perturbation.geometry.norm_ball import NormBall
from gpsuite.methods.perturbation.geometry.sampling import kernel_directions
from gpsuite.methods.perturbation.objectives.quadratic import KernelRidge
from gpsuite.methods.perturbation.ranks.groups import SignChanges
from gpsuite.methods.perturbation.region import Region
from gpsuite.models.radial import kappa, squared_distances
from gpsuite.seeds import stream

RIDGE_ROWS, RIDGE_LENGTHSCALE, RIDGE_PENALTY = 20, 0.3, 0.05
RIDGE_REACH = 10.0  # the ball that ends the rays of kernel ridge, in RKHS norms of its estimate


INSIDE = 1.0 - 1e-6  # of the way to the boundary: decided by the rank test, not by rounding


FAR = 1e3  # a far point, in largest distances to the boundary


def run_region(task: Task[RegionTask], shared: SharedWork) -> Outcome:
    """Measure one region, its ellipsoid and the asymptotic ellipse."""
    problem = task.params.problem
    region, rays = problem.region(task.require_dataset()), compass(problem.rays)
    boundary, ellipsoid = region.boundary(rays), region.ellipsoid()
    steps, shape = boundary.outside, ellipsoid.triangle.T @ ellipsoid.triangle
    area = polygon_area(boundary.centre + steps[:, None] * rays)
    asymptotic = asymptotic_radius(region)
    rng = stream(problem.seed, "segments", problem.q)
    violations, members = star_violations(region, rays, steps, task.params.segments, rng)
    metrics = {
        "region_area": finite_or_none(area),
        "ellipsoid_area": finite_or_none(ellipse_area(shape, ellipsoid.radius)),
        "asymptotic_area": ellipse_area(_information(region), asymptotic),
        "radius": finite_or_none(ellipsoid.radius),
        "unbounded_share": boundary.unbounded_share,
        "returning_share": boundary.returning,
        "segments": len(members),
        "star_violations": violations,
        "outside_ellipsoid": int(np.count_nonzero(~ellipsoid.contains(members))),
        **order_of_ranks(region, region.estimate + FAR * float(steps.max()) * rays[0]),
    }
    arrays = {
        "estimate": region.estimate,
        "region": boundary.centre + steps[:, None] * rays,
        "ellipsoid": ellipse_points(region.estimate, shape, ellipsoid.radius, rays),
        "asymptotic": ellipse_points(region.estimate, _information(region), asymptotic, rays),
    }
    return Outcome(metrics, arrays=arrays, headline=f"area {area:.4f}")


def run_ridge(task: Task[RidgeTask], shared: SharedWork) -> Outcome:
    """Test segments of kernel ridge with a coefficient for each datum; a norm ball ends its rays."""
    seed, q, segments = task.params.seed, task.params.q, task.params.segments
    rng = np.random.default_rng(seed)
    sample = kernel_regression(rng, RIDGE_ROWS, function=FUNCTIONS["sin_2x"])
    X = sample.X / RIDGE_LENGTHSCALE
    K = kappa("squared_exponential", squared_distances(X, X))
    drawn = SignChanges().draw(RIDGE_ROWS, task.params.m, rng)
    region = Region(KernelRidge(K, RIDGE_PENALTY), sample.y, drawn, q)
    norm = float(NormBall(K, 1.0).norms(region.estimate[None])[0])
    rays = kernel_directions(min(segments, 1000), K, "values", stream(seed, "rays", q))
    boundary = region.boundary(rays, NormBall(K, RIDGE_REACH * norm))
    violations, members = star_violations(
        region, rays, boundary.inside, segments, stream(seed, "segments", q)
    )
    metrics = {
        "segments": len(members),
        "star_violations": violations,
        "unbounded_share": region.boundary(rays).unbounded_share,
        "returning_share": boundary.returning,
    }
    return Outcome(metrics, headline=f"{violations} of {len(members)} segments leave the region")


def star_violations(
    region: Region, rays: FloatArray, steps: FloatArray, count: int, rng: np.random.Generator
) -> tuple[int, FloatArray]:
    """Return how many of `count` segments from members to the estimate leave the region, and the members.

    Members: uniform rays, uniform shares of the way to their ends, confirmed by the rank test. A segment is tested
    at one uniform point of it.

    Args:
        region: of a quadratic objective.
        rays: directions [J, p].
        steps: to the boundary, finite [J].
        count: number of segments drawn.
        rng: source of rays, members and points.
    """
    chosen = rng.integers(len(rays), size=count)
    share = rng.uniform(size=(count, 1)) * INSIDE
    members = region.estimate + share * steps[chosen, None] * rays[chosen]
    members = members[region.contains(members)]
    points = region.estimate + rng.uniform(size=(len(members), 1)) * (members - region.estimate)
    return int(np.count_nonzero(~region.contains(points))), members


def order_of_ranks(region: Region, far: FloatArray) -> dict[str, bool]:
    """Return whether the estimate and a far point [p] are members, by the corrected and by the printed rank.

    The poster prints the rank as 1 + #{i : Z_0 < Z_i}, the other way round.
    """
    Z = region.z_values(np.vstack([region.estimate, far]))
    printed = 1 + np.count_nonzero(Z[:, :1] < Z[:, 1:], axis=1) <= region.m - region.q
    corrected = region.contains(np.vstack([region.estimate, far]))
    return {
        "holds_estimate": bool(corrected[0]),
        "excludes_far": not corrected[1],
        "printed_holds_estimate": bool(printed[0]),
        "printed_excludes_far": not printed[1],
    }


def polygon_area(points: FloatArray) -> float:
    """Return the area within a closed polygon of vertices [J, 2] in counter-clockwise order; inf if one is infinite."""
    if not np.all(np.isfinite(points)):
        return float("inf")
    after = np.roll(points, -1, axis=0)
    return float(0.5 * np.sum(points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0]))


def ellipse_area(shape: FloatArray, radius: float) -> float:
    """Return the area pi r / sqrt(det H) of d'Hd <= r in the plane."""
    return float(np.pi * radius / np.sqrt(np.linalg.det(shape)))


def ellipse_points(centre: FloatArray, shape: FloatArray, radius: float, rays: FloatArray) -> FloatArray:
    """Return the boundary [J, 2] of (w - centre)'H(w - centre) <= r along unit vectors [J, 2]."""
    steps = np.sqrt(radius / np.einsum("ji,ik,jk->j", rays, shape, rays))
    return np.asarray(centre + steps[:, None] * rays)


def _information(region: Region) -> FloatArray:
    """Return Phi'Phi."""
    return np.asarray(region.objective.design.T @ region.objective.design)


def asymptotic_radius(region: Region) -> float:
    """Return s^2 chi^2_{p coefficients}(1 - q/m), s^2 = |e|^2/(n - p): of least squares as n grows, for d'Phi'Phi d."""
    n, width = region.objective.design.shape
    residuals = region.y - region.objective.design @ region.estimate
    return float(residuals @ residuals / (n - width) * chdtri(width, region.q / region.m))
