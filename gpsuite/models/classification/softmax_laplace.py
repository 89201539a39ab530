"""Laplace's method for several classes with the softmax. Rasmussen & Williams 2006, Sec. 3.5. No TensorFlow.

Equation: Rasmussen & Williams 2006, Eq. (3.39), Eq. (3.44), Algorithm 3.3, Algorithm 3.4
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, softmax

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.classification.approximation import KernelSystem, NotConvergedError, WeightedSystem
from gpsuite.models.classification.laplace import MAX_ITERATIONS, STEP_TOLERANCE
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.linalg import stable_cholesky

_MAX_HALVINGS = 40
# A relative step below this shrinks quadratically until the rounding of R stops it. If K is ill-conditioned this is far
# above the rounding of K a. With more steps, the last bits would decide whether STEP_TOLERANCE is met.
_QUADRATIC = 1e-7
_ROUNDING = 64.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class MultiClassProblem:
    """A classification problem with C classes and the model that is fitted to it.

    Attributes:
        labels: 0, ..., C - 1, shape [N].

    Raises:
        ValueError: if shapes do not fit, an input is not finite, or a label is not one of the classes.
    """

    X: FloatArray
    labels: IntArray
    n_classes: int
    spec: ModelSpec

    def __post_init__(self) -> None:
        X, labels = np.asarray(self.X, dtype=np.float64), np.asarray(self.labels)
        if X.ndim != 2 or labels.shape != X.shape[:1] or 0 in X.shape:
            raise ValueError(f"inputs [N, D] and labels [N] are needed, got {X.shape} and {labels.shape}")
        if not np.isfinite(X).all():
            raise ValueError(f"X has {np.count_nonzero(~np.isfinite(X))} non-finite values")
        if self.n_classes < 2 or not np.isin(labels, np.arange(self.n_classes)).all():
            raise ValueError(f"labels must be 0 to {self.n_classes - 1}, for at least two classes")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "labels", labels.astype(np.int64))

    @property
    def one_hot(self) -> FloatArray:
        return np.asarray(self.labels[None] == np.arange(self.n_classes)[:, None], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class MultiClassFit:
    """A Gaussian approximation at the posterior mode, at fixed hyperparameters.

    Attributes:
        log_marginal_likelihood: the approximation of log p(y|X) (Eq. 3.44), in nats.
        gradient: its gradient in the logarithms of (variance, lengthscales...), shape [T].
        converged: whether a full Newton step is below `STEP_TOLERANCE`, or as small as rounding allows.
        state: weights a = K^-1 f of the mode, [C, N]. A start for near hyperparameters.
        mode: f, [C, N].
    """

    problem: MultiClassProblem
    hyperparameters: Hyperparameters
    log_marginal_likelihood: float
    gradient: FloatArray
    converged: bool
    iterations: int
    residual: float
    state: FloatArray
    mode: FloatArray

    def require_converged(self) -> MultiClassPosterior:
        """Return the posterior, with one factor of order N (C - 1).

        With W = J J', J [C N, (C - 1) N] block by block, and B = I + J'KJ = L L': (K + W^-1)^-1 = F'F, F = L^-1 J'.

        Raises:
            NotConvergedError: if the iteration did not converge or gave non-finite numbers.
        """
        if not self.converged:
            raise NotConvergedError(f"no convergence in {self.iterations} iterations, residual {self.residual:.1e}")
        prior = KernelSystem(self.problem.X, self.problem.spec, self.hyperparameters)
        factors = _weight_roots(softmax(self.mode, axis=0))
        C, columns, n = factors.shape
        B = np.einsum("cai,ij,cbj->aibj", factors, prior.K, factors, optimize=True)
        B = B.reshape(columns * n, columns * n)
        B.flat[:: columns * n + 1] += 1.0
        lower = stable_cholesky(B, jitters=(0.0,)).lower
        # J' by classes: column (c, i) has the entries J_ca,i in rows (a, i).
        right = np.zeros((columns, n, C, n))
        right[:, np.arange(n), :, np.arange(n)] = factors.transpose(2, 1, 0)
        root = solve_triangular(lower, right.reshape(columns * n, C * n), lower=True, check_finite=False)
        return MultiClassPosterior(
            X=self.problem.X,
            kernel=self.problem.spec.kernel,
            variance=self.hyperparameters.variance,
            lengthscales=prior.lengthscales,
            alpha=self.state,
            root=np.ascontiguousarray(root.reshape(columns * n, C, n)),
            weights=np.full(columns * n, -1.0),
            operator_bound=1.0,
        )


def softmax_laplace(
    problem: MultiClassProblem, hyperparameters: Hyperparameters, start: FloatArray | None = None
) -> MultiClassFit:
    """Return the Gaussian approximation at the posterior mode, log q(y|X) and its gradient.

    It is Newton's method on a = K^-1 f. The step is halved until the posterior density does not fall. A step needs
    C + 1 factors of order N.

    Raises:
        ValueError: if the lengthscales do not fit.
        NonFiniteMatrixError, NotPositiveDefiniteError: if the hyperparameters are too extreme to factorise.
    """
    prior = KernelSystem(problem.X, problem.spec, hyperparameters)
    K, Y = prior.K, problem.one_hot
    a = np.zeros_like(Y) if start is None else start
    # a start worse than f = 0, or not finite
    if not _log_density(Y, a, a @ K) >= _log_density(Y, 0.0 * Y, 0.0 * Y):
        a = np.zeros_like(Y)
    f, density, converged, residual = a @ K, _log_density(Y, a, a @ K), False, np.inf
    iteration = 0
    while iteration < MAX_ITERATIONS:
        iteration += 1
        before = residual
        system = _SoftmaxSystem(K, softmax(f, axis=0))
        full = system.smoothed(system.weighted(f) + Y - system.pi)
        onward = full @ K
        residual = float(np.max(np.abs(onward - f)))
        rounding = _ROUNDING * float(np.max(np.abs(full) @ K))
        size = 1.0 + float(np.max(np.abs(f)))
        converged = residual <= max(STEP_TOLERANCE * size, rounding)
        step = None if converged else _accepted_step(Y, density, (a, f), (full, onward))
        # this close Newton converges quadratically, so a step that did not halve is rounding
        converged |= residual <= _QUADRATIC * size and (residual >= 0.5 * before or step is None)
        if converged:
            a, f = full, onward
        if converged or step is None:
            break
        a, f, density = step
    system = _SoftmaxSystem(K, softmax(f, axis=0))
    value = _log_density(Y, a, f) - 0.5 * system.logdet
    gradient = prior.gradient(_slope_matrix(system, a, Y - system.pi))
    finite = bool(np.isfinite(value) and np.isfinite(gradient).all())
    return MultiClassFit(problem, hyperparameters, value, gradient, converged and finite, iteration, residual, a, f)


class _SoftmaxSystem:
    """W = diag(pi) - Pi Pi' at probabilities pi [C, N], and R = (K + W^-1)^-1 = E - E M E, M = (sum_c E_c)^-1."""

    def __init__(self, K: FloatArray, pi: FloatArray) -> None:
        self.K, self.pi = K, pi
        systems = [WeightedSystem(K, each) for each in pi]
        self.E = np.stack([each.precision() for each in systems])
        self.total = stable_cholesky(self.E.sum(axis=0))
        # log |I + K W|: the probabilities sum to one, so the part that W lacks adds only log |sum_c E_c|.
        self.logdet = sum(each.factor.logdet for each in systems) + self.total.logdet

    @cached_property
    def half(self) -> FloatArray:
        """A_c with A_c'A_c = E_c M E_c, [C, N, N]. Used only at the mode."""
        return np.stack([self.total.half_solve(each) for each in self.E])

    def weighted(self, v: FloatArray) -> FloatArray:
        moved = self.pi * v
        return np.asarray(moved - self.pi * moved.sum(axis=0))

    def reduced(self, v: FloatArray) -> FloatArray:
        own = np.einsum("cij,cj->ci", self.E, v)
        return np.asarray(own - np.einsum("cij,j->ci", self.E, self.total.solve(own.sum(axis=0))))

    def smoothed(self, v: FloatArray) -> FloatArray:
        """Return (I + W K)^-1 v = v - R K v, [C, N]."""
        return np.asarray(v - self.reduced(v @ self.K))

    def blocks(self) -> FloatArray:
        """Return the diagonal blocks R_cc, [C, N, N]."""
        return np.asarray(self.E - self.half.transpose(0, 2, 1) @ self.half)

    def covariances(self) -> FloatArray:
        """Return the posterior covariance of the latent values at every datum, [N, C, C]."""
        C = len(self.pi)
        own = np.diagonal(self.K) - np.einsum("ij,cjk,ki->ci", self.K, self.E, self.K, optimize=True)
        features = self.half @ self.K
        found = np.einsum("aki,bki->iab", features, features, optimize=True)
        found[:, np.arange(C), np.arange(C)] += own.T
        return np.asarray(found)


def _slope_matrix(system: _SoftmaxSystem, a: FloatArray, residual: FloatArray) -> FloatArray:
    """Return M with d log q = sum M_ik dK_ik: (a a' - R) / 2 over classes, plus the movement of the mode.

    d log|B| / df_c = pi_c (t_c - t'pi), t = diag S - 2 S pi with S the posterior covariance at the datum.
    """
    S = system.covariances()
    t = np.einsum("icc->ci", S) - 2.0 * np.einsum("icd,di->ci", S, system.pi)
    slope = -0.5 * system.pi * (t - (t * system.pi).sum(axis=0))
    shift = system.smoothed(slope)
    M = 0.5 * (a.T @ a) - 0.5 * system.blocks().sum(axis=0)
    crossed = shift.T @ residual
    return np.asarray(M + 0.5 * (crossed + crossed.T))


def _weight_roots(pi: FloatArray) -> FloatArray:
    """Return J [C, C - 1, N] with J J' = diag(pi) - pi pi' at every datum.

    J = diag(sqrt(pi)) Q. The columns of Q are an orthonormal basis of the complement of sqrt(pi), from a reflection.
    """
    q = np.sqrt(pi)
    C = len(q)
    normal = q.copy()
    # the sign without cancellation
    normal[0] += 1.0
    reflection = np.eye(C)[:, :, None] - 2.0 * normal[:, None] * normal[None] / (normal * normal).sum(axis=0)
    return np.asarray(q[:, None] * reflection[:, 1:])


def _accepted_step(
    Y: FloatArray, density: float, old: tuple[FloatArray, FloatArray], full: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray, float] | None:
    """Return the longest halved step that does not lower the log density, or None if there is none."""
    # at the mode the density is flat up to rounding. This must not reject the step
    slack, share = _ROUNDING * (1.0 + abs(density)), 1.0
    for _ in range(_MAX_HALVINGS):
        a, f = (before + share * (after - before) for before, after in zip(old, full, strict=True))
        reached = _log_density(Y, a, f)
        if reached >= density - slack:
            return a, f, reached
        share *= 0.5
    return None


def _log_density(Y: FloatArray, a: FloatArray, f: FloatArray) -> float:
    return float(np.sum(Y * f) - np.sum(logsumexp(f, axis=0)) - 0.5 * np.sum(a * f))
