"""Maximum marginal likelihood by L-BFGS-B within a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import Bounds

from gpsuite.budget import Budget
from gpsuite.models.regression.compiled import assign, compiled_loss, flatten, variables_of
from gpsuite.models.regression.parameters import RegressionModel, hyperparameters_of
from gpsuite.models.search import Minimum, minimise

HyperparameterBounds = Mapping[str, tuple[float, float]]
"""Hyperparameter name (variance, lengthscales, noise_variance) -> smallest and largest value."""


def maximise_likelihood(
    model: RegressionModel, budget: Budget, bounds: HyperparameterBounds | None = None
) -> Minimum:
    """Train a model from its present parameters by L-BFGS-B with scipy's default tolerances.

    The search runs over GPflow's unconstrained parameters. The start is always evaluated, even without any
    budget. A step to a non-finite loss is rejected and shortened. The best parameters met are kept.

    Args:
        model: GPR, SGPR or GPRFITC; changed in place.
        budget: each evaluation of loss and gradient is counted; ends the search when exhausted.
        bounds: box in natural units; the start is moved into it. Missing names are free.

    Raises:
        TypeError: for models this package does not build.
        ValueError: if a bound is unknown or empty, a parameter has a prior, or none is trainable.
    """
    variables = variables_of(model, trainable=True)
    box = unconstrained_box(model, bounds or {})
    start = flatten(variables)
    if box is not None:
        start = np.clip(start, box.lb, box.ub)
        assign(variables, start)
    found = minimise(compiled_loss(model).bind(model), start, budget, box)
    if math.isinf(found.loss):
        return replace(found, reason=f"the loss at the start is not finite: {hyperparameters_of(model)}")
    assign(variables, found.point)
    return found


def unconstrained_box(model: RegressionModel, bounds: HyperparameterBounds) -> Bounds | None:
    """Return the limits of the flat trainable parameters [K], or None without bounds.

    Raises:
        ValueError: if a name is unknown, an interval is empty, or the parameter can take no value in it.
    """
    known = {
        "variance": model.kernel.variance,
        "lengthscales": model.kernel.lengthscales,
        "noise_variance": model.likelihood.variance,
    }
    limits: dict[int, tuple[float, float]] = {}
    for name, (low, high) in bounds.items():
        if name not in known:
            raise ValueError(f"bounds: unknown hyperparameter '{name}'; known: {', '.join(known)}")
        if not low <= high:
            raise ValueError(f"bounds: {name} has an empty interval [{low}, {high}]")
        limits[id(known[name])] = _transformed_interval(name, known[name].transform, low, high)
    if not limits:
        return None
    rows = [
        np.tile(limits.get(id(parameter), (-np.inf, np.inf)), (int(np.prod(parameter.shape)), 1))
        for parameter in model.trainable_parameters
    ]
    lower, upper = np.concatenate(rows).T
    return Bounds(lower, upper)


def _transformed_interval(name: str, transform: Any, low: float, high: float) -> tuple[float, float]:
    """Map an interval through the increasing inverse transform; a limit out of its domain does not bind."""
    lower, upper = (float(transform.inverse(np.float64(limit))) for limit in (low, high))
    if high < np.inf and not np.isfinite(upper):
        raise ValueError(f"bounds: {name} cannot take any value in [{low}, {high}]")
    return lower if np.isfinite(lower) else -np.inf, upper if np.isfinite(upper) else np.inf
