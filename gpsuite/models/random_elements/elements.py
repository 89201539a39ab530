"""Gaussian random elements, and kernels of infinitely wide dense networks (NNGP) in closed form.

The network is Dense-[activation-Dense]^depth with independent normal weights and biases. K_0 = b + w x'x / D and
K_(l+1) = b + w E[act(u) act(v)], (u, v) ~ N(0, K_l), with weight variance w and bias variance b. See Neal 1996, Cho &
Saul 2009 for ReLU, Williams 1998 for erf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import gpflow
import numpy as np
import tensorflow as tf
from scipy.linalg import solve_triangular
from scipy.spatial.distance import pdist

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.errors import unknown_name
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import Link
from gpsuite.models.classification.multiclass_posterior import RobustMaxPosterior
from gpsuite.models.kernels import kernel_name
from gpsuite.models.linalg import stable_cholesky
from gpsuite.models.networks import Network
from gpsuite.models.projected_lbfgs import minimise_on_grid
from gpsuite.models.radial import expanded
from gpsuite.models.regression.gpflow_models import assign, flatten
from gpsuite.models.search import Minimum
from gpsuite.registry import Registry

ACTIVATIONS = ("relu", "erf")
# Added to the diagonal of K_ZZ, as a share of its mean.
JITTER = 1e-6
_ROWS = 2000
# Variances are at least this share of the prior's: smaller differences are rounding.
SMALLEST_SHARE = 1e-10
_ELEMENT_ROWS = 1000
LARGEST_FEATURES = 2**27  # largest number of kept entries of A(X): 1 GiB
# Number of rows for the marginal likelihood: an evaluation takes N^3 + N^2 D operations.
ROWS = 500
START_NOISE, SMALLEST_NOISE = 0.1, 1e-4  # noise variances for targets of about unit variance
# For inputs of about unit variance. A search can step to where an input is noise. Its slope vanishes there, and no step
# leads back. Classifiers still search without it: their published records would have to be computed again.
SHORTEST = 0.1
PRIORS: Registry[Callable[[FloatArray], gpflow.kernels.Kernel]] = Registry("prior")


class NNGP(gpflow.kernels.Kernel):  # type: ignore[misc]
    """The covariance of a random dense network's output.

    Args:
        weight_variance: w > 0. For ReLU 2 keeps the diagonal through the layers.
        bias_variance: b >= 0. A value of 0 is not trained.

    Raises:
        UserError: if the activation is unknown.
        ValueError: if the depth is below 1, or a variance is out of its range.
    """

    def __init__(
        self,
        depth: int = 1,
        activation: str = "relu",
        weight_variance: float = 2.0,
        bias_variance: float = 0.1,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise unknown_name("activation", activation, ACTIVATIONS)
        if depth < 1 or weight_variance <= 0.0 or bias_variance < 0.0 or scale <= 0.0:
            raise ValueError("depth >= 1, weight_variance > 0, bias_variance >= 0 and scale > 0 are needed")
        self.depth, self.activation = depth, activation
        positive = gpflow.utilities.positive(lower=0.0)
        self.weight_variance = gpflow.Parameter(weight_variance, transform=positive)
        self.bias_variance = (
            gpflow.Parameter(bias_variance, transform=positive)
            if bias_variance > 0.0
            else gpflow.Parameter(0.0, trainable=False)
        )
        self.scale = gpflow.Parameter(scale, transform=positive)

    def K(self, X: Any, X2: Any = None) -> Any:
        """Return k(X, X2), shape [N, N2], or k(X, X) without X2."""
        X2 = X if X2 is None else X2
        w, b, scale = self._values()
        inputs = tf.cast(tf.shape(X)[-1], X.dtype)
        cross = b + w * tf.matmul(X, X2, transpose_b=True) / inputs
        left, right = (b + w * tf.reduce_sum(part * part, axis=-1) / inputs for part in (X, X2))
        left, right = left[:, None], right[None, :]
        for _ in range(self.depth):
            cross = b + w * self._expectation(cross, left, right)
            left, right = (b + w * self._expectation(d, d, d, equal=True) for d in (left, right))
        return scale * cross

    def K_diag(self, X: Any) -> Any:
        """Return k(x, x) of each row, shape [N]."""
        w, b, scale = self._values()
        diagonal = b + w * tf.reduce_sum(X * X, axis=-1) / tf.cast(tf.shape(X)[-1], X.dtype)
        for _ in range(self.depth):
            diagonal = b + w * self._expectation(diagonal, diagonal, diagonal, equal=True)
        return scale * diagonal

    def _values(self) -> tuple[Any, Any, Any]:
        parameters = (self.weight_variance, self.bias_variance, self.scale)
        weight, bias, scale = (tf.convert_to_tensor(parameter) for parameter in parameters)
        return weight, bias, scale

    def _expectation(self, cross: Any, left: Any, right: Any, equal: bool = False) -> Any:
        """Return E[act(u) act(v)] for normal (u, v) with variances `left`, `right`. `equal` states that u = v."""
        if self.activation == "erf":
            ratio = 2.0 * cross / tf.sqrt((1.0 + 2.0 * left) * (1.0 + 2.0 * right))
            return 2.0 / np.pi * tf.asin(ratio)
        if equal:
            return 0.5 * cross
        return _relu_expectation(cross, left, right)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _relu_expectation(cross: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Return sqrt(k11 k22) (sin t + (pi - t) cos t) / (2 pi), cos t = k12 / sqrt(k11 k22).

    Its slopes are finite where automatic differentiation divides by sin t = 0: in k12 it is (pi - t) / (2 pi), in k11
    sin t / (4 pi) sqrt(k22 / k11).
    """
    norm = tf.sqrt(left * right)
    safe = tf.where(norm > 0.0, norm, tf.ones_like(norm))
    cosine = tf.clip_by_value(cross / safe, -1.0, 1.0)
    sine = tf.sqrt((1.0 - cosine) * (1.0 + cosine))
    angle = tf.acos(cosine)
    value = (norm * sine + (np.pi - angle) * cross) / (2.0 * np.pi)

    def slopes(upstream: Any) -> tuple[Any, Any, Any]:
        by_cross = upstream * (np.pi - angle) / (2.0 * np.pi)
        half = upstream * sine * norm / (4.0 * np.pi)
        by_left = tf.reduce_sum(tf.math.divide_no_nan(half, left), axis=1, keepdims=True)
        by_right = tf.reduce_sum(tf.math.divide_no_nan(half, right), axis=0, keepdims=True)
        return by_cross, by_left, by_right

    return value, slopes


class InducingBasis:
    """Features A(x) = L^-1 k(Z, x), K_ZZ + jitter I = L L', of a kernel with fixed parameters.

    Args:
        jitter: number added to the diagonal, in units of the kernel. None: `JITTER` times the diagonal's mean.

    Raises:
        ValueError: if Z is not a finite matrix with a row.
        NotPositiveDefiniteError: if the inducing covariance cannot be factorised.
    """

    def __init__(self, kernel: gpflow.kernels.Kernel, Z: FloatArray, jitter: float | None = None) -> None:
        Z = np.array(Z, dtype=np.float64)
        if Z.ndim != 2 or 0 in Z.shape or not np.isfinite(Z).all():
            raise ValueError(f"Z must be finite, [M, D] with M >= 1, got shape {Z.shape}")
        self.kernel, self.Z = kernel, Z
        K = np.asarray(kernel(Z).numpy())
        added = JITTER * float(np.mean(np.diagonal(K))) if jitter is None else jitter
        self.factor = stable_cholesky(K + added * np.eye(len(Z))).lower
        self._inducing, self._lower = tf.constant(Z), tf.constant(self.factor)

    @property
    def size(self) -> int:
        return len(self.Z)

    def features(self, X: Any) -> Any:
        """Return A(X), shape [M, N]. A'A is the prior covariance that Z explains."""
        return tf.linalg.triangular_solve(self._lower, self.kernel(self._inducing, X))

    def gram(self, X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return A(X) A(X)' [M, M] and A(X) Y [M, P] for targets [N, P], in blocks of rows."""
        total, moment = np.zeros((self.size, self.size)), np.zeros((self.size, Y.shape[1]))
        # A(X) of all rows at once would be M x N
        for start in range(0, len(X), _ROWS):
            rows = slice(start, start + _ROWS)
            features = self.features(tf.constant(X[rows], tf.float64)).numpy()
            total += features @ features.T
            moment += features @ Y[rows]
        return total, moment

    def regression(self, X: FloatArray, Y: FloatArray, noise_variance: float) -> tuple[FloatArray, FloatArray]:
        """Return weights b [M, P] and whitened covariance S [M, M] of sparse regression on Y [N, P].

        S = (I + A A' / sigma^2)^-1, b = S A Y / sigma^2 (Titsias 2009 in whitened form). In the kernel's own terms
        LL' = (K_ZZ + K_ZX K_XZ / sigma^2)^-1.

        Raises:
            ValueError: if the noise variance is not positive.
        """
        if not noise_variance > 0.0:
            raise ValueError(f"noise_variance={noise_variance}: must be positive")
        gram, moment = self.gram(X, Y)
        precision = stable_cholesky(np.eye(self.size) + gram / noise_variance)
        return precision.solve(moment) / noise_variance, precision.solve(np.eye(self.size))


class VariationalKernel(Protocol):
    """Interface of a kernel that a Gaussian measure uses."""

    @property
    def variables(self) -> list[Any]: ...

    def evaluate(self, X: Any, features: Any, chosen: int) -> tuple[Any, Any]:
        """Return r_j(x, x) [N, C] and r_j over the first `chosen` rows [C, S, S].

        Args:
            features: A(X) of the measure's basis [M, N]. None if there is no basis.
            chosen: S, at most N, 0 if only the variances are needed.
        """


class SparseKernel:
    """r(x, x') = k(x, x') - k_xZ K_ZZ^-1 k_Zx' + k_xZ L L' k_Zx', whitened: k - A'A + A'B B'A with B lower triangular.

    L = L_Z^-T B for K_ZZ = L_Z L_Z'.

    Raises:
        ValueError: if the factors' shape does not fit.
    """

    def __init__(self, basis: InducingBasis, factors: FloatArray) -> None:
        if factors.ndim != 3 or factors.shape[1:] != (basis.size, basis.size):
            raise ValueError(f"factors [C, {basis.size}, {basis.size}] are needed, got {factors.shape}")
        self.basis = basis
        self.factors = tf.Variable(np.tril(factors), dtype=tf.float64)

    @classmethod
    def from_covariance(cls, basis: InducingBasis, covariance: FloatArray, classes: int) -> SparseKernel:
        """Return the kernel from one whitened covariance S = B B' [M, M] for all classes."""
        lower = stable_cholesky(covariance).lower
        return cls(basis, np.broadcast_to(lower, (classes, *lower.shape)))

    @classmethod
    def from_plain(cls, basis: InducingBasis, factors: FloatArray) -> SparseKernel:
        """Return the kernel from L [C, M, M] of r = k - k_xZ K_ZZ^-1 k_Zx' + k_xZ L L' k_Zx'."""
        whitened = basis.factor.T @ factors
        # W' = QR: R' is lower triangular with R'R = WW', even if L is singular
        triangles = np.asarray(np.linalg.qr(whitened.transpose(0, 2, 1), mode="r"))
        return cls(basis, triangles.transpose(0, 2, 1))

    @property
    def variables(self) -> list[Any]:
        return [self.factors]

    def evaluate(self, X: Any, features: Any, chosen: int) -> tuple[Any, Any]:
        # B'A of every class, [C, M, N]
        rotated = tf.matmul(tf.linalg.band_part(self.factors, -1, 0), features[None], transpose_a=True)
        variance = self._left_over(X, features)[:, None] + tf.transpose(tf.reduce_sum(rotated * rotated, axis=1))
        few, few_rotated = features[:, :chosen], rotated[:, :, :chosen]
        base = self.basis.kernel(X[:chosen]) - tf.matmul(few, few, transpose_a=True)
        return variance, base[None] + tf.matmul(few_rotated, few_rotated, transpose_a=True)

    def mean_variance(self, X: FloatArray) -> Callable[[], Any]:
        """Return a function of the variables' values: the means of r_j(x, x) over rows X [N, D], [C].

        They are the mean of k - A'A plus tr(B_j' G B_j) for G [M, M] the mean of A A'. So a call takes M^3 operations.
        """
        gram, left_over = np.zeros((self.basis.size, self.basis.size)), 0.0
        for start in range(0, len(X), _ROWS):
            rows = tf.constant(X[start : start + _ROWS], tf.float64)
            features = self.basis.features(rows)
            gram += tf.matmul(features, features, transpose_b=True).numpy() / len(X)
            left_over += float(tf.reduce_sum(self._left_over(rows, features))) / len(X)

        def mean() -> Any:
            lower = tf.linalg.band_part(self.factors, -1, 0)
            # tr(B'GB) has the slope 2 GB: automatic differentiation would multiply by G twice
            product = tf.stop_gradient(tf.matmul(gram[None], lower))
            return left_over + tf.reduce_sum((2.0 * lower - tf.stop_gradient(lower)) * product, axis=[1, 2])

        return mean

    def _left_over(self, X: Any, features: Any) -> Any:
        prior = self.basis.kernel(X, full_cov=False)
        return tf.maximum(prior - tf.reduce_sum(features * features, axis=0), SMALLEST_SHARE * prior)


class NetworkKernel:
    """r_j = an infinitely wide network's kernel. Its variances and scale are trained for each class.

    Raises:
        ValueError: if there is no kernel.
    """

    def __init__(self, kernels: list[NNGP]) -> None:
        if not kernels:
            raise ValueError("at least one kernel is needed")
        self.kernels = kernels

    @property
    def variables(self) -> list[Any]:
        return [p.unconstrained_variable for kernel in self.kernels for p in kernel.trainable_parameters]

    def evaluate(self, X: Any, features: Any, chosen: int) -> tuple[Any, Any]:
        variance = tf.stack([kernel(X, full_cov=False) for kernel in self.kernels], axis=1)
        return variance, tf.stack([kernel(X[:chosen]) for kernel in self.kernels])


class VariationalMean(Protocol):
    """Interface of a mean function that a Gaussian measure uses."""

    @property
    def variables(self) -> list[Any]: ...

    def __call__(self, X: Any, features: Any) -> Any:
        """Return m_Q(X), shape [N, C]. `features` are A(X) of the measure's basis [M, N], or None."""


class NetworkMean:
    """m_Q = m_P + a network of C outputs with an output layer that starts at 0.

    So it starts at the prior's mean, where all classes are equally likely. Robust max has no slope if means differ by
    many deviations. With random outputs half of the rows would have no effect on the network.
    """

    def __init__(self, prior_mean: float, network: Network, rng: np.random.Generator) -> None:
        self.prior_mean, self.network = prior_mean, network
        self.variables = network.variables(rng)
        self.variables[-2].assign(tf.zeros_like(self.variables[-2]))

    def __call__(self, X: Any, features: Any) -> Any:
        return self.prior_mean + self.network(self.variables, X)


class KernelMean:
    """m_Q(x) = m_P + k(x, Z) beta_j, whitened: m_P + A(x)' b_j, beta = L^-T b."""

    def __init__(self, prior_mean: float, weights: FloatArray) -> None:
        self.prior_mean = prior_mean
        self.weights = tf.Variable(weights, dtype=tf.float64)
        self.variables = [self.weights]

    def __call__(self, X: Any, features: Any) -> Any:
        return self.prior_mean + tf.matmul(features, self.weights, transpose_a=True)


@dataclass(frozen=True, eq=False)
class GaussianElement:
    """Variational measures next to their common prior.

    Attributes:
        basis: inducing features that mean or kernel use, or None.
    """

    prior_mean: float
    prior_kernel: gpflow.kernels.Kernel
    mean: VariationalMean
    kernel: VariationalKernel
    basis: InducingBasis | None
    inputs: int

    @property
    def variables(self) -> list[Any]:
        return [*self.mean.variables, *self.kernel.variables]

    def moments(self, X: Any, chosen: int = 0) -> tuple[Any, Any, Any]:
        """Return m_Q(X) [N, C], r(x, x) [N, C] and r over the first `chosen` rows [C, S, S], tensors.

        Args:
            X: inputs [N, D], or `with_features` of them [N, D + M].
        """
        X, features = self.split(X)
        return self.mean(X, features), *self.kernel.evaluate(X, features, chosen)

    def with_features(self, X: FloatArray) -> FloatArray:
        """Return inputs [N, D] with A(x), which training does not change, [N, D + M]. Only the inputs if A is large."""
        if self.basis is None or len(X) * self.basis.size > LARGEST_FEATURES:
            return X
        parts = [self.basis.features(tf.constant(X[at : at + _ROWS])).numpy().T for at in range(0, len(X), _ROWS)]
        return np.hstack([X, np.concatenate(parts)])

    def split(self, X: Any) -> tuple[Any, Any]:
        """Return inputs [N, D] and A(X) [M, N], None without a basis. X is as in `moments`."""
        if self.basis is None:
            return X, None
        if X.shape[1] == self.inputs:
            return X, self.basis.features(X)
        return X[:, : self.inputs], tf.transpose(X[:, self.inputs :])

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the latent mean [N, C] and variance [N, C] as arrays, in blocks of rows.

        Raises:
            ValueError: if X is not finite or not of shape [N, D].
            ArithmeticError: if a prediction is not finite.
        """
        X = checked_inputs(X, self.inputs)
        parts = [self.moments(tf.constant(X[at : at + _ELEMENT_ROWS]))[:2] for at in range(0, len(X), _ELEMENT_ROWS)]
        mean, variance = (np.concatenate([part[i].numpy() for part in parts]) for i in (0, 1))
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            raise ArithmeticError("the latent prediction is not finite")
        return mean, variance


def checked_inputs(X: FloatArray, inputs: int) -> FloatArray:
    """Return inputs as float64 [N, D].

    Raises:
        ValueError: if their shape is wrong, there is no row, or a value is not finite.
    """
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != inputs or len(X) == 0:
        raise ValueError(f"inputs [N, {inputs}] are needed, N >= 1, got shape {X.shape}")
    bad = np.argwhere(~np.isfinite(X))
    if bad.size:
        raise ValueError(f"X[{bad[0][0]}, {bad[0][1]}] is {X[tuple(bad[0])]}. All inputs must be finite")
    return X


@dataclass(frozen=True, eq=False)
class FittedPrior:
    """A prior kernel for targets around a constant mean.

    Attributes:
        noise_variance: noise variance of the targets around the functions, in their squared units.
        report: report of the search. Its loss is the negative log marginal likelihood.
    """

    kernel: gpflow.kernels.Kernel
    noise_variance: float
    report: Minimum


@PRIORS.register("se_ard")
def _se_ard(X: FloatArray) -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(1.0, np.full(X.shape[1], _typical_distance(X)))


@PRIORS.register("se")
def _se(X: FloatArray) -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(1.0, _typical_distance(X))


@PRIORS.register("nngp_relu")
def _nngp_relu(X: FloatArray) -> gpflow.kernels.Kernel:
    return NNGP(2, "relu", 2.0, 0.1)


@PRIORS.register("nngp_erf")
def _nngp_erf(X: FloatArray) -> gpflow.kernels.Kernel:
    return NNGP(2, "erf", 2.0, 0.1)


def fit_prior(
    name: str,
    X: FloatArray,
    Y: FloatArray,
    rng: np.random.Generator,
    budget: Budget,
    rows: int = ROWS,
    shortest: float = 0.0,
) -> FittedPrior:
    """Choose a kernel's parameters and the noise by L-BFGS on the marginal likelihood of some rows.

    The evaluations end long before a search of many lengthscales converges. So it runs on a grid: see
    `projected_lbfgs`.

    Args:
        shortest: steps to a shorter lengthscale than this are refused, see `SHORTEST`.

    Raises:
        UserError: if the prior is unknown.
    """
    chosen = rng.permutation(len(X))[:rows]
    X, Y = np.asarray(X[chosen], np.float64), np.asarray(Y[chosen], np.float64)
    model, variables = _prior_model(name, X, Y)
    if budget.seconds is None:
        report = _unhurried(name, X.shape, X.tobytes(), Y.shape, Y.tobytes(), budget.evaluations, shortest)
    else:
        report = _prior_search(model, variables, budget, shortest)
    if np.isfinite(report.loss):
        assign(variables, report.point)
    gpflow.set_trainable(model, False)
    return FittedPrior(model.kernel, float(model.likelihood.variance.numpy()), report)


def _prior_model(name: str, X: FloatArray, Y: FloatArray) -> tuple[gpflow.models.GPR, list[Any]]:
    noise = gpflow.likelihoods.Gaussian(START_NOISE, variance_lower_bound=SMALLEST_NOISE)
    model = gpflow.models.GPR((X, Y), PRIORS.get(name)(X), likelihood=noise)
    return model, [p.unconstrained_variable for p in model.trainable_parameters]


# every method of a fold and every number of inducing inputs searches the same rows, seconds each time
@lru_cache(maxsize=4)
def _unhurried(
    name: str,
    X_shape: tuple[int, ...],
    X: bytes,
    Y_shape: tuple[int, ...],
    Y: bytes,
    evaluations: int | None,
    shortest: float,
) -> Minimum:
    """Search without a time limit: the same rows always give the same point."""
    arrays = np.frombuffer(X).reshape(X_shape), np.frombuffer(Y).reshape(Y_shape)
    return _prior_search(*_prior_model(name, *arrays), Budget(evaluations=evaluations), shortest)


def _prior_search(model: gpflow.models.GPR, variables: list[Any], budget: Budget, shortest: float) -> Minimum:
    loss = tf.function(lambda: _loss_and_gradient(model, variables), autograph=False)

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        assign(variables, point)
        if _shortest(model.kernel) < shortest:  # a step too far: the search halves it
            return np.nan, np.full_like(point, np.nan)
        try:
            value, gradient = loss()
        except tf.errors.InvalidArgumentError:  # the covariance has no Cholesky factor
            return np.nan, np.full_like(point, np.nan)
        return float(value.numpy()), np.asarray(gradient.numpy(), np.float64)

    return minimise_on_grid(objective, flatten(variables), budget)


def _shortest(kernel: gpflow.kernels.Kernel) -> float:
    """Return the least lengthscale, infinite if the kernel has none."""
    lengthscales = getattr(kernel, "lengthscales", None)
    return math.inf if lengthscales is None else float(np.min(lengthscales.numpy()))


def _loss_and_gradient(model: gpflow.models.GPR, variables: list[Any]) -> tuple[Any, Any]:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        loss = model.training_loss()
    return loss, tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(loss, variables)], axis=0)


def _typical_distance(X: FloatArray) -> float:
    """Return the median distance of different rows, or 1 if all are equal."""
    distances = pdist(X)
    positive = distances[distances > 0.0]
    return float(np.median(positive)) if positive.size else 1.0


def certifiable_posterior(element: GaussianElement, link: Link) -> GPCPosterior:
    """Return a measure with a kernel mean and a sparse kernel as a classifier's posterior over its inducing inputs.

    With K_ZZ + jitter = L L' and S = B B' = Q diag(lambda) Q': alpha = L^-T b, F = Q' L^-1, c = lambda - 1.

    Raises:
        TypeError: for another element: means by a network or a constant have no certified range.
    """
    parts, alpha, root, weights = _functions(element)
    if element.prior_mean != 0.0 or len(alpha) != 1:
        raise TypeError("one latent function with prior mean 0 is needed")
    return GPCPosterior(
        **parts,
        alpha=alpha[0],
        root=root[0],
        weights=weights[0],
        operator_bound=max(1.0, 1.0 + float(weights.max())),
        link=link,
    )


def certifiable_robust_max(element: GaussianElement, epsilon: float) -> RobustMaxPosterior:
    """Return a measure of C >= 2 functions, kernel means and sparse kernels, as a robust-max classifier's posterior.

    The prior's constant mean is the same for all functions and is left out: it changes no difference.

    Raises:
        TypeError: as `certifiable_posterior`, but for the prior's mean.
    """
    parts, alpha, own, weights = _functions(element)
    C, M = alpha.shape
    root = np.zeros((C, M, C, M))
    root[np.arange(C), :, np.arange(C)] = own
    return RobustMaxPosterior(
        **parts,
        alpha=alpha,
        root=root.reshape(C * M, C, M),
        weights=weights.ravel(),
        operator_bound=max(1.0, 1.0 + float(weights.max())),
        epsilon=epsilon,
    )


def _functions(element: GaussianElement) -> tuple[dict[str, Any], FloatArray, FloatArray, FloatArray]:
    """Return inputs and kernel, and for every function alpha [C, M], root [C, M, M] and weights [C, M]."""
    mean, kernel, basis = element.mean, element.kernel, element.basis
    if not (isinstance(mean, KernelMean) and isinstance(kernel, SparseKernel) and basis is not None):
        raise TypeError("only a kernel mean with a sparse kernel can be certified")
    prior: gpflow.kernels.IsotropicStationary = element.prior_kernel

    def transposed_solve(right: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(basis.factor, right, lower=True, trans="T"))

    rotations, singular, _ = np.linalg.svd(np.tril(kernel.factors.numpy()))
    root = np.stack([np.ascontiguousarray(transposed_solve(each).T) for each in rotations])
    parts = {
        "X": basis.Z,
        "kernel": kernel_name(prior),
        "variance": float(prior.variance.numpy()),
        "lengthscales": expanded(prior.lengthscales.numpy(), basis.Z.shape[1]),
    }
    return parts, np.ascontiguousarray(transposed_solve(mean.weights.numpy()).T), root, singular**2 - 1.0
