"""One compiled loss and gradient for all models of the same structure, whatever their data.

Tracing GPflow's marginal likelihood takes longer than a whole fit on a few hundred points. The compiled
function therefore takes the data as arguments with N left open, and is kept: many splits, one trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.models.regression.parameters import RegressionModel, kind_of, spec_of

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
