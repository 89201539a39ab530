"""One bound of robustness/bounds_1d: its functions over the interval, before and after one split."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import DIVERGED, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.bounds_1d.plan import BoundsTask
from gpsuite.experiments.robustness.bounds_1d.settings import DOMAIN, FREQUENCY, NOISE
from gpsuite.experiments.robustness.bounds_1d.summary import ROUNDING
from gpsuite.methods.robustness.bounding_curves import bounding_curves
from gpsuite.methods.robustness.box_bounds import BoundingFunction
from gpsuite.methods.robustness.search.regions import interval_box
from gpsuite.methods.robustness.verdict import build_bound
from gpsuite.models.classification.approximation import BinaryProblem, NotConvergedError
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.models.classification.training import train_gpc
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.seeds import stream


def made_up_rows(seed: int, rows: int) -> tuple[FloatArray, FloatArray]:
    """Return inputs [N, 1] and labels [N]; redrawn until both classes are there."""
    rng = stream(seed, "rows")
    while True:
        X = rng.uniform(*DOMAIN, (rows, 1))
        y = np.where(np.sin(FREQUENCY * X[:, 0]) + NOISE * rng.standard_normal(rows) > 0, 1.0, -1.0)
        if len(np.unique(y)) == 2:
            return X, y


def run(task: Task[BoundsTask], shared: SharedWork) -> Outcome:
    """Bound the class probability over the region and over halves of it; check the curves on a grid.

    The gap is that of the minimum: attained at a box's middle, minus proved. Arrays: the grid, the probability, the
    curves of the whole region and of its halves, and per level of halving the attained and the proved minimum.
    """
    params = task.params
    try:
        posterior = _posterior(params, task.budget_seconds)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    low, high = params.low, params.high
    middle = np.array([0.5 * (low + high)])
    bounding = build_bound(params.bound, posterior, interval_box(middle, [low], [high]))
    x = np.linspace(low, high, params.grid_points)
    truth = posterior.probability(x[:, None])
    curves = [_curves(bounding, posterior, x, np.linspace(low, high, boxes + 1)) for boxes in (1, 2)]
    levels = _levels(bounding, low, high, params.levels)
    gaps = levels[:, 1] - levels[:, 2]
    above = max(float((lower - truth).max()) for lower, _ in curves)
    below = max(float((truth - upper).max()) for _, upper in curves)
    metrics = {
        "largest_excess": max(above, below),
        "lower_function_holds": above <= ROUNDING,
        "upper_function_holds": below <= ROUNDING,
        "gap_before": float(gaps[0]),
        "gap_after": float(gaps[1]),
        "true_minimum": float(truth.min()),
    }
    named = zip(
        ("whole_low", "whole_high", "halves_low", "halves_high"), [*curves[0], *curves[1]], strict=True
    )
    arrays = {"x": x, "probability": truth, **dict(named), "levels": levels}
    return Outcome(metrics, arrays=arrays, headline=f"gap {gaps[0]:.3f}, after one split {gaps[1]:.3f}")


def _posterior(params: BoundsTask, seconds: float | None) -> GPCPosterior:
    X, y = made_up_rows(params.seed, params.rows)
    budget = Budget(seconds=seconds, evaluations=params.evaluations)
    spec, link = ModelSpec(kernel=params.kernel), LINKS.get(params.method.link)
    trained = train_gpc(BinaryProblem(X, y, spec, link), params.method.inference, Hyperparameters(), budget)
    return trained.fit.posterior


def _curves(
    bounding: BoundingFunction, posterior: GPCPosterior, x: FloatArray, ends: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper bounding function at the grid; each box's own on its part of it."""
    low, high = np.empty_like(x), np.empty_like(x)
    for lo, hi in pairwise(ends):
        part = (x >= lo) & (x <= hi)
        found = bounding_curves(bounding, posterior.link, np.array([lo]), np.array([hi]), x[part, None])
        low[part], high[part] = found
    return low, high


def _levels(bounding: BoundingFunction, low: float, high: float, levels: int) -> FloatArray:
    """Return boxes, attained and proved minimum after each halving of all boxes, [levels + 1, 3]; never worse."""
    rows, attained, proved = [], 1.0, 0.0
    for level in range(levels + 1):
        ends = np.linspace(low, high, 2**level + 1)[:, None]
        found = bounding.bounds(ends[:-1], ends[1:])
        below, _ = bounding.outward_probability(found.low, found.high)
        attained = min(attained, float(bounding.to_probability(found.centre).min()))
        proved = max(proved, float(below.min()))
        rows.append([2.0**level, attained, proved])
    return np.array(rows)
