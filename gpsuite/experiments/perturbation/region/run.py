"""One model of perturbation/region: its region, band and sizes at each level."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.perturbation.region.problem import Problem, read_problem
from gpsuite.experiments.perturbation.region.tasks import RegionTask
from gpsuite.methods.perturbation.geometry.bands import Band, ellipsoid_band, pointwise_band
from gpsuite.methods.perturbation.geometry.sampling import isotropic_directions, sample_members
from gpsuite.methods.perturbation.region import Region
from gpsuite.seeds import stream

RAYS_AT_ONCE = 100  # between two looks at the clock
CANDIDATES = {"estimate": 1.0, "half of it": 0.5, "zero function": 0.0, "twice the estimate": 2.0}


def run(task: Task[RegionTask], shared: SharedWork) -> Outcome:
    """Compute bands on a curve and at the data, members along rays, and ranks of some candidates, at every level.

    When the seconds end, pointwise bands that are left are the ellipsoid's, outer ones too, and rays are left out. The
    rest is whole.
    """
    params, clock, cut = task.params, Budget(seconds=task.budget_seconds), []
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
        level = _bands(region, problem, curve, clock)
        rays = _rays(region, params.rays, stream(params.seed, "rays"), clock)
        found, bands = level.found | rays.found, level.bands
        cut += [f"{name} at q={q}" for name in (level.cut, rays.cut) if name]
        metrics |= {f"{name}_{q}": value for name, value in found.items()}
        arrays |= {f"{name}_{q}": value for name, value in bands.items()}
    candidates = np.outer(list(CANDIDATES.values()), problem.region.estimate)
    arrays["ranks"] = problem.region.ranks(candidates)
    headline = f"n={metrics['n']}, p={metrics['coefficients']}"
    if cut:
        reason = f"{task.budget_seconds:g} seconds used up: {', '.join(cut)}"
        return Outcome(metrics, BUDGET, reason, arrays, headline)
    return Outcome(metrics, arrays=arrays, headline=headline)


def _curve(problem: Problem, column: int, points: int) -> tuple[FloatArray, FloatArray]:
    """Return values of one input over its range, others at their median, and rows of Phi there."""
    x = np.tile(np.median(problem.X, axis=0), (points, 1))
    x[:, column] = np.linspace(problem.X[:, column].min(), problem.X[:, column].max(), points)
    values = problem.mean[column] + problem.spread[column] * x[:, column]
    return np.asarray(values), problem.features(x)


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of what is known at a level.

    Attributes:
        found: numbers.
        bands: on the curve, in units of the target.
        cut: what the seconds left out; empty for nothing.
    """

    found: dict[str, float | int | None]
    bands: dict[str, FloatArray] = field(default_factory=dict)
    cut: str = ""


def _bands(region: Region, problem: Problem, curve: FloatArray, clock: Budget) -> _Part:
    """Return a level's radius, mean widths at the data, and bands on the curve."""
    ellipsoid, quadratic, cut = region.ellipsoid(), region.quadratic, False
    bands: dict[str, Band] = {}
    widths: dict[str, Band] = {}
    for rows, kept in ((curve, bands), (region.objective.design, widths)):
        kept["ellipsoid"] = kept["pointwise"] = ellipsoid_band(ellipsoid, rows)
        if clock.exhausted:
            cut = True
        else:
            kept["pointwise"] = pointwise_band(quadratic, region.q, rows)
    found = {
        f"{name}_width": finite_or_none(problem.unit * float(np.mean(band.upper - band.lower)))
        for name, band in widths.items()
    }
    drawn = {
        f"{name}_{end}": problem.offset + problem.unit * getattr(band, end)
        for name, band in bands.items()
        for end in ("lower", "upper")
    }
    radius = finite_or_none(ellipsoid.radius)
    return _Part({"radius": radius, **found}, drawn, "ellipsoid band for pointwise one" if cut else "")


def _rays(region: Region, rays: int, rng: np.random.Generator, clock: Budget) -> _Part:
    """Return what a level's rays found, as many as there are seconds for."""
    ellipsoid = region.ellipsoid()
    directions = isotropic_directions(rays, np.linalg.inv(region.quadratic.triangle), rng)
    step = rays if clock.seconds is None else RAYS_AT_ONCE
    seen, unbounded, members, outside = 0, 0, 0, 0
    while seen < rays and not clock.exhausted:
        boundary = region.boundary(directions[seen : seen + step])
        alphas = sample_members(boundary, region.contains, "region's metric", rng).alphas
        seen += len(boundary.directions)
        unbounded += int(np.count_nonzero(boundary.unbounded))
        members += len(alphas)
        outside += int(np.count_nonzero(~ellipsoid.contains(alphas)))
    found: dict[str, float | int | None] = {
        "unbounded_share": unbounded / seen if seen else None,
        "members": members,
        "members_outside_ellipsoid": outside,
    }
    if seen == rays:
        return _Part(found)
    return _Part({**found, "rays": seen}, cut=f"{seen} of {rays} rays")
