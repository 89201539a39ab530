"""One model of perturbation/region: its region, band and sizes at each level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.experiments.base import Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.perturbation.region.problem import Problem, read_problem
from gpsuite.experiments.perturbation.region.tasks import RegionTask
from gpsuite.methods.perturbation.geometry.bands import ellipsoid_band, pointwise_band
from gpsuite.methods.perturbation.geometry.sampling import isotropic_directions, sample_members
from gpsuite.methods.perturbation.region import Region
from gpsuite.seeds import stream

CANDIDATES = {"estimate": 1.0, "half of it": 0.5, "zero function": 0.0, "twice the estimate": 2.0}


def run(task: Task[RegionTask], shared: SharedWork) -> Outcome:
    """Compute bands on a curve and at the data, members along rays, and ranks of some candidates, at every level."""
    params = task.params
    problem = read_problem(task.require_dataset(), params)
    values, curve = _curve(problem, params.along, params.points)
    metrics: dict[str, float | int | str | bool | None] = {
        "n": len(problem.X),
        "coefficients": len(problem.region.estimate),
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "x": values,
        "estimate": problem.offset + problem.unit * (curve @ problem.region.estimate),
    }
    for q in params.excluded:
        region = replace(problem.region, q=q)
        found, bands = _level(region, problem, curve, params.rays, stream(params.seed, "rays"))
        metrics |= {f"{name}_{q}": value for name, value in found.items()}
        arrays |= {f"{name}_{q}": value for name, value in bands.items()}
    candidates = np.outer(list(CANDIDATES.values()), problem.region.estimate)
    arrays["ranks"] = problem.region.ranks(candidates)
    return Outcome(metrics, arrays=arrays, headline=f"n={metrics['n']}, p={metrics['coefficients']}")


def _curve(problem: Problem, column: int, points: int) -> tuple[FloatArray, FloatArray]:
    """Return values of one input over its range, others at their median, and rows of Phi there."""
    x = np.tile(np.median(problem.X, axis=0), (points, 1))
    x[:, column] = np.linspace(problem.X[:, column].min(), problem.X[:, column].max(), points)
    values = problem.mean[column] + problem.spread[column] * x[:, column]
    return np.asarray(values), problem.features(x)


def _level(
    region: Region, problem: Problem, curve: FloatArray, rays: int, rng: np.random.Generator
) -> tuple[dict[str, float | int | None], dict[str, FloatArray]]:
    """Return a level's numbers, and its bands on the curve, both in units of the target."""
    ellipsoid, at_data = region.ellipsoid(), region.objective.design
    basis = np.linalg.inv(region.quadratic.triangle)
    boundary = region.boundary(isotropic_directions(rays, basis, rng))
    members = sample_members(boundary, region.contains, "region's metric", rng)
    tight, outer = pointwise_band(region.quadratic, region.q, curve), ellipsoid_band(ellipsoid, curve)
    widths = {
        "pointwise_width": pointwise_band(region.quadratic, region.q, at_data),
        "ellipsoid_width": ellipsoid_band(ellipsoid, at_data),
    }
    found: dict[str, float | int | None] = {
        "radius": finite_or_none(ellipsoid.radius),
        **{
            name: finite_or_none(problem.unit * float(np.mean(band.upper - band.lower)))
            for name, band in widths.items()
        },
        "unbounded_share": boundary.unbounded_share,
        "members": len(members.alphas),
        "members_outside_ellipsoid": int(np.count_nonzero(~ellipsoid.contains(members.alphas))),
    }
    bands = {
        f"{name}_{end}": problem.offset + problem.unit * getattr(band, end)
        for name, band in (("pointwise", tight), ("ellipsoid", outer))
        for end in ("lower", "upper")
    }
    return found, bands
