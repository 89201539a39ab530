"""Between a GPflow model and plain data: its kind, structure and hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from typing import Any, TypeAlias

import gpflow
import numpy as np
import tensorflow as tf
from scipy.optimize import Bounds

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.kernels import kernel_name
from gpsuite.models.search import Minimum, minimise

RegressionModel: TypeAlias = gpflow.models.GPR | gpflow.models.SGPR | gpflow.models.GPRFITC

KINDS = {"GPR": gpflow.models.GPR, "SGPR": gpflow.models.SGPR, "GPRFITC": gpflow.models.GPRFITC}


def kind_of(model: RegressionModel) -> str:
    """Return the model's name in `KINDS`.

    Raises:
        TypeError: for any other class.
    """
    for name, kind in KINDS.items():
        if type(model) is kind:
            return name
    raise TypeError(f"{type(model).__name__} is not one of the models {', '.join(KINDS)}")


def spec_of(model: RegressionModel) -> ModelSpec:
    """Return the structure the model was built from.

    Raises:
        TypeError: if the kernel, mean or likelihood is not one this package builds.
    """
    if type(model.mean_function) is not gpflow.functions.Zero:
        raise TypeError(f"mean function {type(model.mean_function).__name__}: only the zero mean is known")
    if type(model.likelihood) is not gpflow.likelihoods.Gaussian:
        raise TypeError(f"likelihood {type(model.likelihood).__name__}: only the Gaussian is known")
    return ModelSpec(
        kernel=kernel_name(model.kernel),
        ard=bool(model.kernel.ard),
        noise_floor=float(model.likelihood.variance_lower_bound),
    )


def hyperparameters_of(model: RegressionModel) -> Hyperparameters:
    """Return the model's present hyperparameters."""
    return Hyperparameters(
        variance=float(model.kernel.variance.numpy()),
        lengthscales=tuple(float(value) for value in np.atleast_1d(model.kernel.lengthscales.numpy())),
        noise_variance=float(model.likelihood.variance.numpy()),
    )


# One compiled loss and gradient for all models of the same structure, whatever their data.
#
# Tracing GPflow's marginal likelihood takes longer than a whole fit on a few hundred points. The compiled
# function therefore takes the data as arguments with N left open, and is kept: many splits, one trace.


Objective = Callable[[FloatArray], tuple[float, FloatArray]]
"""Unconstrained trainable parameters [K] -> loss (nats) and gradient [K]; not finite where there is none."""

MAX_KEPT = 16
"""Compiled functions kept; the oldest goes first. TensorFlow's memory grows with each."""


class CompiledLoss:
    """Negative log marginal likelihood (or its bound) and gradient of every model of one structure.

    The parameters travel as two flat vectors, trainable and fixed ones, in the order of `model.parameters`.
    Not for concurrent use: the graph works on variables of its own.

    Args:
        model: an example of the structure; it is copied.
    """

    def __init__(self, model: RegressionModel) -> None:
        self._template = gpflow.utilities.deepcopy(model)
        X, Y = self._template.data
        self._template.data = None
        vector = tf.TensorSpec([None], tf.float64)
        self.function = tf.function(
            self._loss_and_gradient,
            input_signature=[
                vector,
                vector,
                tf.TensorSpec([None, X.shape[1]], tf.float64),
                tf.TensorSpec([None, Y.shape[1]], tf.float64),
            ],
            autograph=False,  # no Python branch depends on a tensor; converting all of GPflow takes seconds
        )

    @property
    def traces(self) -> int:
        """How often TensorFlow has traced the function."""
        return int(self.function.experimental_get_tracing_count())

    def bind(self, model: RegressionModel) -> Objective:
        """Return the objective of one model: its data, and its fixed parameters at their present values."""
        X, Y = model.data
        fixed = flatten(variables_of(model, trainable=False))

        def objective(free: FloatArray) -> tuple[float, FloatArray]:
            loss, gradient = self.function(tf.constant(free, tf.float64), fixed, X, Y)
            return float(loss.numpy()), np.asarray(gradient.numpy(), dtype=np.float64)

        return objective

    def _loss_and_gradient(self, free: Any, fixed: Any, X: Any, Y: Any) -> tuple[Any, Any]:
        template = self._template
        free_variables = variables_of(template, trainable=True)
        assign(free_variables, free)
        assign(variables_of(template, trainable=False), fixed)
        template.data = X, Y
        # GPRFITC multiplies with its own count of the data.
        template.num_data = tf.cast(tf.shape(X)[0], tf.float64)
        try:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(free_variables)
                loss = template.training_loss()
            return loss, tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(loss, free_variables)], axis=0)
        finally:
            # No symbolic tensor may stay behind in the template.
            template.data = template.num_data = None


_kept: dict[tuple[Any, ...], CompiledLoss] = {}


def compiled_loss(model: RegressionModel) -> CompiledLoss:
    """Return the compiled loss for models of this structure, compiling it only the first time.

    Structure: kind of model, its spec, D, P, the shape of every parameter and which are trained.

    Raises:
        TypeError: for models this package does not build.
        ValueError: if a parameter has a prior, which is not part of the likelihood, or none is trainable.
    """
    if any(parameter.prior is not None for parameter in model.parameters):
        raise ValueError("a parameter has a prior; the marginal likelihood does not contain it")
    if not model.trainable_parameters:
        raise ValueError("no parameter is trainable")
    shapes = tuple((tuple(parameter.shape), parameter.trainable) for parameter in model.parameters)
    columns = tuple(values.shape[1] for values in model.data)
    key = (kind_of(model), astuple(spec_of(model)), columns, shapes)
    if key not in _kept:
        if len(_kept) >= MAX_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = CompiledLoss(model)
    return _kept[key]


def variables_of(model: RegressionModel, *, trainable: bool) -> list[Any]:
    """Return the unconstrained TensorFlow variables of the trainable, or of the fixed, parameters."""
    return [p.unconstrained_variable for p in model.parameters if p.trainable == trainable]


def flatten(variables: list[Any]) -> FloatArray:
    """Return the values of variables as one vector."""
    parts = [np.ravel(variable.numpy()) for variable in variables]
    return np.concatenate(parts) if parts else np.zeros(0)


def assign(variables: list[Any], flat: Any) -> None:
    """Set variables from one vector, an array or a tensor; the inverse of `flatten`."""
    start = 0
    for variable in variables:
        size = int(np.prod(variable.shape))
        variable.assign(tf.reshape(flat[start : start + size], variable.shape))
        start += size


# Maximum marginal likelihood by L-BFGS-B within a budget.


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
