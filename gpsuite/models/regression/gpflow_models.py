"""Exact and sparse Gaussian process regression of GPflow: build, train, predict, and posteriors.

Equation: Titsias 2009, Eq. (9)
Equation: Snelson & Ghahramani 2006, Eq. (9)
Equation: Rasmussen & Williams 2006, Eq. (2.25), Eq. (2.26)
Equation: Titsias 2009, Eq. (6)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, TypeAlias

import gpflow
import numpy as np
import tensorflow as tf
from scipy.linalg import eigh, solve_triangular
from scipy.optimize import Bounds

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.kernels import build_kernel, kernel_name
from gpsuite.models.latent import LatentPosterior
from gpsuite.models.linalg import CholeskyFactor, NotPositiveDefiniteError, stable_cholesky
from gpsuite.models.radial import expanded, kappa, squared_distances
from gpsuite.models.search import Minimum, minimise

RegressionModel: TypeAlias = gpflow.models.GPR | gpflow.models.SGPR | gpflow.models.GPRFITC
KINDS = {"GPR": gpflow.models.GPR, "SGPR": gpflow.models.SGPR, "GPRFITC": gpflow.models.GPRFITC}
# Unconstrained trainable parameters [K] -> loss (nats) and gradient [K]. Not finite if there is none.
Objective = Callable[[FloatArray], tuple[float, FloatArray]]
# Largest number of kept compiled functions. The oldest is dropped first. TensorFlow's memory grows with each.
MAX_KEPT = 16
# Hyperparameter name (variance, lengthscales, noise_variance) -> smallest and largest value.
HyperparameterBounds = Mapping[str, tuple[float, float]]


def build_gpr(X: FloatArray, Y: FloatArray, spec: ModelSpec, hyperparameters: Hyperparameters) -> gpflow.models.GPR:
    """Return exact GP regression with zero mean for X [N, D], Y [N] or [N, P]. R&W 2006, Eqs. (2.25), (2.26), (2.30).

    Raises:
        ValueError: if shapes do not fit, data are not finite, or the noise is not above `spec.noise_floor`.
    """
    X, Y = regression_data(X, Y)
    return gpflow.models.GPR(
        (X, Y), build_kernel(spec, hyperparameters, X.shape[1]), likelihood=build_likelihood(spec, hyperparameters)
    )


def build_likelihood(spec: ModelSpec, hyperparameters: Hyperparameters) -> gpflow.likelihoods.Gaussian:
    """Return the Gaussian likelihood. ValueError if the noise variance is not above `spec.noise_floor`."""
    if not hyperparameters.noise_variance > spec.noise_floor:
        raise ValueError(
            f"noise_variance={hyperparameters.noise_variance:g} must be above noise_floor={spec.noise_floor:g}"
        )
    return gpflow.likelihoods.Gaussian(hyperparameters.noise_variance, variance_lower_bound=spec.noise_floor)


def regression_data(X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return inputs [N, D] and targets [N, P] as checked float64 arrays. Targets of shape [N] become [N, 1].

    Raises:
        ValueError: if shapes do not fit, there are no rows, or a value is not finite.
    """
    X = np.asarray(X, dtype=np.float64)
    Y = np.asarray(Y, dtype=np.float64)
    Y = Y[:, None] if Y.ndim == 1 else Y
    if X.ndim != 2 or Y.ndim != 2 or X.shape[0] != Y.shape[0] or 0 in (*X.shape, *Y.shape):
        raise ValueError(f"inputs [N, D] and targets [N] or [N, P] are needed, got {X.shape} and {Y.shape}")
    for name, values in (("X", X), ("Y", Y)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has {np.count_nonzero(~np.isfinite(values))} non-finite values")
    return X, Y


def build_sgpr(
    X: FloatArray, Y: FloatArray, Z: FloatArray, spec: ModelSpec, hyperparameters: Hyperparameters
) -> gpflow.models.SGPR:
    """Return variational sparse regression with zero mean from inducing inputs Z [M, D]. Titsias 2009, Eq. (9).

    Raises:
        ValueError: if shapes do not fit, data are not finite, or the noise is not above `spec.noise_floor`.
    """
    return _build(gpflow.models.SGPR, X, Y, Z, spec, hyperparameters)


def build_fitc(
    X: FloatArray, Y: FloatArray, Z: FloatArray, spec: ModelSpec, hyperparameters: Hyperparameters
) -> gpflow.models.GPRFITC:
    """Return FITC sparse regression with zero mean. Snelson & Ghahramani 2006, Eq. (9).

    Arguments and errors are as in `build_sgpr`.
    """
    return _build(gpflow.models.GPRFITC, X, Y, Z, spec, hyperparameters)


def _build(
    kind: type[gpflow.models.SGPR] | type[gpflow.models.GPRFITC],
    X: FloatArray,
    Y: FloatArray,
    Z: FloatArray,
    spec: ModelSpec,
    hyperparameters: Hyperparameters,
) -> gpflow.models.SGPR | gpflow.models.GPRFITC:
    X, Y = regression_data(X, Y)
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim != 2 or Z.shape[0] == 0 or Z.shape[1] != X.shape[1] or not np.isfinite(Z).all():
        raise ValueError(f"finite inducing inputs [M, {X.shape[1]}] are needed, got shape {Z.shape}")
    return kind(
        (X, Y), build_kernel(spec, hyperparameters, X.shape[1]), Z, likelihood=build_likelihood(spec, hyperparameters)
    )


def kind_of(model: RegressionModel) -> str:
    """Return the model's name in `KINDS`. TypeError for any other class."""
    for name, kind in KINDS.items():
        if type(model) is kind:
            return name
    raise TypeError(f"{type(model).__name__} is not one of the models {', '.join(KINDS)}")


def spec_of(model: RegressionModel) -> ModelSpec:
    """Return the structure the model was built from.

    Raises:
        TypeError: if this package does not build such a kernel, mean or likelihood.
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
    return Hyperparameters(
        variance=float(model.kernel.variance.numpy()),
        lengthscales=tuple(float(value) for value in np.atleast_1d(model.kernel.lengthscales.numpy())),
        noise_variance=float(model.likelihood.variance.numpy()),
    )


# One compiled loss and gradient for all models of the same structure, regardless of their data.
#
# Tracing GPflow's marginal likelihood takes longer than a whole fit on a few hundred points. So the compiled function
# is kept and takes the data as arguments with any N. Many splits need only one trace.
class CompiledLoss:
    """Negative log marginal likelihood (or its bound) and gradient of every model of one structure.

    The parameters are passed as two flat vectors, trainable and fixed ones, in the order of `model.parameters`. Threads
    must not share an instance: the graph changes its variables.
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
            autograph=False,  # no Python branch depends on a tensor, and converting GPflow takes seconds
        )

    @property
    def traces(self) -> int:
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
        # GPRFITC multiplies by its own number of data.
        template.num_data = tf.cast(tf.shape(X)[0], tf.float64)
        try:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(free_variables)
                loss = template.training_loss()
            return loss, tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(loss, free_variables)], axis=0)
        finally:
            # No symbolic tensor may remain in the template.
            template.data = template.num_data = None


_kept: dict[tuple[Any, ...], CompiledLoss] = {}


def compiled_loss(model: RegressionModel) -> CompiledLoss:
    """Return the compiled loss for models of this structure, compiling it only the first time.

    The structure is the kind of model, its spec, D, P, the shape of every parameter and which parameters are trained.

    Raises:
        TypeError: for models this package does not build.
        ValueError: if a parameter has a prior, which is not part of the likelihood, or none is trainable.
    """
    if any(parameter.prior is not None for parameter in model.parameters):
        raise ValueError("a parameter has a prior. The marginal likelihood does not contain it")
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
    return [p.unconstrained_variable for p in model.parameters if p.trainable == trainable]


def flatten(variables: list[Any]) -> FloatArray:
    parts = [np.ravel(variable.numpy()) for variable in variables]
    return np.concatenate(parts) if parts else np.zeros(0)


def assign(variables: list[Any], flat: Any) -> None:
    start = 0
    for variable in variables:
        size = int(np.prod(variable.shape))
        variable.assign(tf.reshape(flat[start : start + size], variable.shape))
        start += size


def maximise_likelihood(model: RegressionModel, budget: Budget, bounds: HyperparameterBounds | None = None) -> Minimum:
    """Train a model from its present parameters by L-BFGS-B with scipy's default tolerances.

    The search is over GPflow's unconstrained parameters. The start is always evaluated, even without any budget. A step
    to a non-finite loss is rejected and shortened. The best parameters of the search are kept.

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
    """Map an interval through the increasing inverse transform. A limit out of its domain has no effect."""
    lower, upper = (float(transform.inverse(np.float64(limit))) for limit in (low, high))
    if high < np.inf and not np.isfinite(upper):
        raise ValueError(f"bounds: {name} cannot take any value in [{low}, {high}]")
    return lower if np.isfinite(lower) else -np.inf, upper if np.isfinite(upper) else np.inf


def predict(model: RegressionModel, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean and variance [N, P] of the latent function, without observation noise.

    Raises:
        ValueError: if `Xnew` does not have the model's D columns or is not finite.
        NotPositiveDefiniteError: if the model's covariance cannot be factorised.
        ArithmeticError: if the prediction is not finite for another reason.
    """
    Xnew = np.asarray(Xnew, dtype=np.float64)
    columns = model.data[0].shape[1]
    if Xnew.ndim != 2 or Xnew.shape[1] != columns or not np.isfinite(Xnew).all():
        raise ValueError(f"finite inputs [N, {columns}] are needed, got shape {Xnew.shape}")
    try:
        mean, variance = (np.asarray(part.numpy(), dtype=np.float64) for part in model.predict_f(Xnew))
    except tf.errors.InvalidArgumentError as error:
        raise _failure(model) from error
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise _failure(model)
    return mean, variance


def _failure(model: RegressionModel) -> ArithmeticError:
    """Return the error of a failed prediction. If a factorisation fails, GPR raises and sparse models return NaN."""
    X = model.data[0]
    hyperparameters = hyperparameters_of(model)
    if isinstance(model, gpflow.models.GPR):
        matrix = model.kernel(X).numpy() + hyperparameters.noise_variance * np.eye(X.shape[0])
    else:
        Z = model.inducing_variable.Z
        matrix = model.kernel(Z).numpy() + gpflow.default_jitter() * np.eye(Z.shape[0])
    if not np.isfinite(matrix).all():
        return ArithmeticError(f"the model's covariance is not finite; {hyperparameters}")
    return NotPositiveDefiniteError.of(matrix, (0.0,), hyperparameters)


@dataclass(frozen=True, eq=False)
class RegressionPosterior:
    """A regression's latent posterior and its observation noise.

    Attributes:
        noise_variance: noise variance in y = f(x) + noise, above 0.
    """

    latent: LatentPosterior
    noise_variance: float
    jitter: float


def regression_posterior(model: gpflow.models.GPR | gpflow.models.SGPR) -> RegressionPosterior:
    """Return a model's posterior at its present hyperparameters, without jitter if none is needed.

    Let A = L^-1 K_ZX, K_ZZ = L L' and I + A A'/noise = Q diag(lambda) Q'. The sparse posterior has alpha = L^-T Q
    diag(1/lambda) Q' A y / noise, F = Q' L^-1, c = 1/lambda - 1.

    Raises:
        TypeError: for another model, or several outputs.
        NotPositiveDefiniteError: if a covariance cannot be factorised.
    """
    sparse = isinstance(model, gpflow.models.SGPR)
    X, Y = (np.asarray(part.numpy(), dtype=np.float64) for part in model.data)
    if not (sparse or isinstance(model, gpflow.models.GPR)) or Y.shape[1] != 1:
        raise TypeError(f"GPR or SGPR with one output is needed, not {type(model).__name__} with {Y.shape[1]}")
    found, kernel = hyperparameters_of(model), kernel_name(model.kernel)
    noise, lengthscales = found.noise_variance, np.asarray(expanded(found.lengthscales, X.shape[1]))

    def covariance(first: FloatArray, second: FloatArray) -> FloatArray:
        q = squared_distances(first / lengthscales, second / lengthscales)
        return np.asarray(found.variance * kappa(kernel, q))

    if sparse:
        centres = np.asarray(model.inducing_variable.Z.numpy(), dtype=np.float64)
        factor = stable_cholesky(covariance(centres, centres))
        alpha, root, weights = sparse_features(factor, covariance(centres, X), Y[:, 0], noise)
    else:
        centres = X
        factor = stable_cholesky(covariance(X, X) + noise * np.eye(len(X)))
        alpha, root, weights = exact_features(factor, Y[:, 0])
    latent = LatentPosterior(centres, kernel, found.variance, lengthscales, alpha, root, weights, 1.0)
    return RegressionPosterior(latent, noise, factor.jitter)


def exact_features(factor: CholeskyFactor, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return alpha, root and weights of exact regression on targets [N] from the factor of K + noise I."""
    root = solve_triangular(factor.lower, np.eye(len(y)), lower=True)
    return root.T @ (root @ y), root, -np.ones(len(y))


def sparse_features(
    factor: CholeskyFactor, across: FloatArray, y: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return alpha, root and weights of sparse regression on targets [N].

    Args:
        factor: factor of K_ZZ.
        across: K_ZX, [M, N].
        y: targets.
        noise: noise variance of the targets.
    """
    A = solve_triangular(factor.lower, across, lower=True)
    eigenvalues, Q = eigh(np.eye(len(A)) + A @ A.T / noise)
    root = solve_triangular(factor.lower.T, Q, lower=False).T
    alpha = root.T @ ((Q.T @ (A @ y)) / (eigenvalues * noise))
    return alpha, root, np.minimum(1.0 / eigenvalues - 1.0, 0.0)
