"""The full GP: its PAC-Bayesian bound and its marginal likelihood as objectives with analytic gradients.

Let A = (K + s I)^-1, alpha = A y and h = diag A. At the training inputs mean = y - s alpha and variance = s - s^2 h.
KL = [ln det(K + s I) - n ln s - n + s sum h + alpha'(y - s alpha)] / 2. No jitter is added: K + s I is factorised.

Equation: Reeb et al. 2018, Eq. (6), Eq. (8)
Equation: derived, gradient of the full GP's bound
Equation: Rasmussen & Williams 2006, Eq. (2.30), Eq. (5.9)
Equation: Reeb et al. 2018, Sec. 3
Equation: Rasmussen & Williams 2006, Eq. (2.30)
Equation: Rasmussen & Williams 2006, Eq. (2.30), Sec. 5.1
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import Bounds
from scipy.special import expit

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.posteriors import (
    RiskAndKL,
    check_logarithms,
    checked_data,
    log_kernel,
    log_kernel_factors,
)
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search, TrainedGP
from gpsuite.models.config import Hyperparameters
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.models.radial import is_far
from gpsuite.models.search import Minimum, minimise

# Rows handled at once: panels fit in the cache, and triangles are not much larger than half a square.
_PANEL = 128
# Lower limit of the noise variance in GPflow's Gaussian likelihood.
NOISE_FLOOR = 1e-6
# Standard deviation of the normal prior on the logarithm of each hyperparameter: a factor of 4.5 either way.
SPREAD = 1.5
# Largest distance from the prior's centre, in these standard deviations.
FARTHEST = 3.0
# Centre of the noise variance's prior, as a share of the target's variance.
NOISE = 0.1
MAX_EVALUATIONS = 100


@dataclass(frozen=True)
class _Inverse:
    """Results of one factorisation of K + s I. A itself is in the objective's buffer."""

    alpha: FloatArray  # A y [N]
    diagonal: FloatArray  # diag A [N]
    kl: float
    log_determinant: float  # of K + s I


class _Algebra:
    """Kernel matrix, inverse and the chain from a matrix of derivatives to the logarithms of the hyperparameters.

    An evaluation needs one potrf, one potri and, for a bound, half a matrix product. The buffers, two n x n matrices,
    are allocated once. So threads must not share an instance.
    """

    def __init__(self, X: FloatArray, y: FloatArray, n_lengthscales: int) -> None:
        n = len(X)
        self._X = X - X.mean(axis=0)  # centred: less cancellation in the kernel's squares
        self._y, self.n_lengthscales = y, n_lengthscales
        self._kernel = np.zeros((n, n))  # K. Only rows i:e and columns :e of every panel are filled
        # rows :n become A, symmetric. Rows n and n + 1 hold alpha and w, the rank-two part of the gradient
        self._inverse = np.zeros((n + 2, n))
        self._left = np.zeros((_PANEL, n + 2))
        self._product = np.zeros(_PANEL * n)

    @property
    def n(self) -> int:
        return len(self._y)

    def _fill_kernel(self, theta: FloatArray) -> FloatArray:
        """Fill the lower panels of K and of K + s I. Return the inputs divided by the lengthscales [N, D]."""
        check_logarithms(theta, self.n_lengthscales + 2)
        scaled: FloatArray = self._X * np.exp(-theta[1:-1])
        far, (left, right) = is_far(scaled), log_kernel_factors(scaled, float(theta[0]))
        variance, noise = math.exp(theta[0]), math.exp(theta[-1])
        K, A = self._kernel, self._inverse
        for i in range(0, self.n, _PANEL):
            e = min(i + _PANEL, self.n)
            panel = self._product[: (e - i) * e].reshape(e - i, e)
            if far:
                panel[:] = log_kernel(scaled[i:e], scaled[:e], float(theta[0]))
            else:
                np.matmul(left[i:e], right[:e].T, out=panel)
            np.exp(panel, out=K[i:e, :e])
            K[range(i, e), range(i, e)] = variance
            A[i:e, :e] = K[i:e, :e]
            A[range(i, e), range(i, e)] = variance + noise
        return scaled

    def _invert(self, s: float) -> _Inverse:
        """Overwrite the buffer's lower panels of K + s I by the full symmetric inverse."""
        n, y = self.n, self._y
        A = self._inverse[:n]
        # A is C-ordered, so A.T is Fortran-ordered with the data in its upper triangle: LAPACK works in place
        factor, info = dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefiniteError(f"K + {s:g} I is not positive definite (pivot {info} of {n})")
        log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
        inverse, info = dpotri(factor, lower=0, overwrite_c=1)
        if info != 0 or not np.shares_memory(inverse, A):
            raise NotPositiveDefiniteError(f"the factor of K + {s:g} I has a zero pivot ({info} of {n})")
        _mirror_lower(A)
        alpha = A @ y
        h = np.diagonal(A).copy()
        kl = log_determinant - n * math.log(s) - n + s * float(h.sum()) + float(alpha @ (y - s * alpha))
        return _Inverse(alpha, h, 0.5 * kl, log_determinant)

    def _contract(
        self, alpha: FloatArray, d_alpha: FloatArray, d_h: FloatArray | None, d_kl: float, scaled: FloatArray
    ) -> tuple[float, FloatArray, float]:
        """Return the derivatives in ln variance and ln lengthscales, and the trace of G.

        G = -A diag(d_h) A - (w alpha' + alpha w')/2 + d_kl A / 2, w = A d_alpha, is formed in row panels up to the
        diagonal. Entries left of the diagonal block count twice. Without d_h the product with A is not needed.
        """
        n, D = self.n, scaled.shape[1]
        A = self._inverse
        w = A[:n] @ d_alpha
        A[n], A[n + 1] = alpha, w
        features = np.hstack([scaled, np.ones((n, 1))])
        column_sums = np.zeros(n)
        row_part, cross, total, trace = np.zeros(D), np.zeros(D), 0.0, 0.0
        far, apart = is_far(scaled), np.zeros(D)
        for i in range(0, n, _PANEL):
            e = min(i + _PANEL, n)
            rows, diagonal = e - i, (range(e - i), range(i, e))
            left = self._left[:rows]
            left[:, n], left[:, n + 1] = -0.5 * w[i:e], -0.5 * alpha[i:e]
            G = self._product[: rows * e].reshape(rows, e)
            if d_h is None:
                np.matmul(left[:, n:], A[n:, :e], out=G)
                G += 0.5 * d_kl * A[i:e, :e]
            else:
                np.multiply(A[i:e], -d_h, out=left[:, :n])
                left[diagonal] += 0.5 * d_kl  # times A: the term d_kl A / 2
                np.matmul(left, A[:, :e], out=G)
            trace += float(G[diagonal].sum())
            G *= self._kernel[i:e, :e]
            G[:, :i] *= 2.0
            total += float(G[diagonal].sum())
            G[diagonal] = 0.0  # zero distance has no slope in a lengthscale: squares of inputs leave only rounding
            HX = G @ features[:e]
            column_sums[:e] += G.sum(axis=0)
            row_part += HX[:, D] @ scaled[i:e] ** 2
            cross += np.einsum("ij,ij->j", scaled[i:e], HX[:, :D])
            total += float(HX[:, D].sum())
            if far:
                apart += _weighted_squares(G, scaled[i:e], scaled[:e])
        per_dimension = apart if far else row_part + column_sums @ scaled**2 - 2.0 * cross
        return total, per_dimension if self.n_lengthscales == D else per_dimension.sum(keepdims=True), trace


class FullGPObjective(_Algebra):
    """The bound of a full GP and its gradient in the logarithms of the hyperparameters. See `_Algebra`."""

    def __init__(self, problem: RiskProblem) -> None:
        super().__init__(problem.X, problem.y, problem.n_lengthscales)
        self._loss, self._bound = problem.loss, problem.bound

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray, RiskAndKL]:
        """Return the bound, its gradient in theta [T + 1], and the risk and KL behind it.

        Raises:
            NotPositiveDefiniteError: if K + s I cannot be factorised in float64.
        """
        s = math.exp(theta[-1])
        scaled = self._fill_kernel(theta)
        state = self._invert(s)
        alpha, h, y = state.alpha, state.diagonal, self._y
        phi, d_mean, d_variance = self._loss.expected_with_gradient(y, y - s * alpha, s - s * s * h)
        risk = float(phi.mean())
        value, d_risk, d_kl = self._bound.value_and_gradient(risk, state.kl)
        gm, gv = d_mean * (d_risk / self.n), d_variance * (d_risk / self.n)

        d_alpha = -s * gm + 0.5 * d_kl * (y - 2.0 * s * alpha)
        d_h = -s * s * gv + 0.5 * d_kl * s
        d_log_variance, d_log_lengthscales, trace = self._contract(alpha, d_alpha, d_h, d_kl, scaled)
        explicit = -gm @ alpha + gv @ (1.0 - 2.0 * s * h) + 0.5 * d_kl * (-self.n / s + h.sum() - alpha @ alpha)
        gradient = np.concatenate([[d_log_variance], d_log_lengthscales, [s * (explicit + trace)]])
        return value, gradient, RiskAndKL(risk, state.kl)


class FullGPLikelihood(_Algebra):
    """The negative log marginal likelihood of a full GP and its gradient in the logarithms of the hyperparameters.

    Raises:
        ValueError: if shapes disagree, or a value is not finite.
    """

    def __init__(self, X: FloatArray, y: FloatArray, ard: bool = True) -> None:
        X, y = checked_data(X, y)
        super().__init__(X, y, X.shape[1] if ard else 1)

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the negative log marginal likelihood in nats, and its gradient in theta [T + 1].

        Raises:
            NotPositiveDefiniteError: if K + s I cannot be factorised in float64.

        Equation: Rasmussen & Williams 2006, Eq. (2.30), Eq. (5.9)
        """
        s = math.exp(theta[-1])
        scaled = self._fill_kernel(theta)
        state = self._invert(s)
        value = 0.5 * (float(self._y @ state.alpha) + state.log_determinant + self.n * math.log(2.0 * math.pi))
        # the derivative in K is (A - alpha alpha')/2, as for a KL of weight 1 with A d_alpha = alpha/2, without risk
        d_log_variance, d_log_lengthscales, trace = self._contract(state.alpha, 0.5 * self._y, None, 1.0, scaled)
        return value, np.concatenate([[d_log_variance], d_log_lengthscales, [s * trace]])


def _weighted_squares(weights: FloatArray, A: FloatArray, B: FloatArray) -> FloatArray:
    """Return sum_ik w_ik (a_ij - b_kj)^2 [D] of A [I, D] and B [K, D], from differences, which lose no digits."""
    columns = zip(A.T, B.T, strict=True)
    return np.array([np.vdot(weights, np.square(a[:, None] - b)) for a, b in columns])


def _mirror_lower(matrix: FloatArray) -> None:
    n = len(matrix)
    for i in range(0, n, _PANEL):
        e = min(i + _PANEL, n)
        block = matrix[i:e, i:e]
        lower = np.tril(block, -1)
        block[...] = lower + lower.T + np.diag(np.diagonal(block))
        matrix[i:e, e:] = matrix[e:, i:e].T


def train_full_gp(problem: RiskProblem, search: Search) -> TrainedGP:
    """Minimise the bound of a full GP over its hyperparameters, then round those of the kernel.

    L-BFGS-B with variance and lengthscales in the box [e^-6, e^6] of the grid.

    Raises:
        ValueError: if `search.start` has the wrong number of lengthscales.
        UserError: if the parametrisation is unknown.
    """
    bound, variables = FullGPObjective(problem), search.variables
    first = search.first(problem.n_lengthscales)

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        theta, slope = variables.to_log(u)
        value, gradient, _ = bound.value_and_gradient(theta)
        return value, gradient * slope

    found = search.run(value_and_gradient, variables.from_log(first.to_log()), search.limits(first.n_kernel))
    return TrainedGP.at(variables.to_log(found.point)[0], found)


def maximise_full_likelihood(
    X: FloatArray, y: FloatArray, ard: bool, budget: Budget
) -> tuple[Hyperparameters, Minimum]:
    """Train a full GP by its marginal likelihood, from hyperparameters 1, as GPflow does, without TensorFlow.

    The search is over GPflow's unconstrained parameters: softplus for the kernel's, softplus above a floor for the
    noise variance. With scipy's default tolerances it visits the same points as GPflow's search.

    Equation: Rasmussen & Williams 2006, Eq. (2.30)
    """
    likelihood = FullGPLikelihood(X, y, ard)
    floor = np.zeros(likelihood.n_lengthscales + 2)
    floor[-1] = NOISE_FLOOR

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        natural = np.logaddexp(0.0, u) + floor
        value, gradient = likelihood.value_and_gradient(np.log(natural))
        return value, gradient * expit(u) / natural

    above = 1.0 - floor
    found = minimise(value_and_gradient, above + np.log(-np.expm1(-above)), budget)
    return Hyperparameters.from_log(np.log(np.logaddexp(0.0, found.point) + floor)), found


# Lengthscales that scale the inputs before a bound is trained, from rows that the bound does not use.
#
# On the grid of a PAC-Bayes bound each lengthscale adds some nats. Choices by other rows add none: a prior may depend
# on them. Inputs are divided by the lengthscales found there. So the bound accounts for only one lengthscale. Source:
# Ambroladze, Parrado-Hernandez & Shawe-Taylor 2007 (a prior learned on a part of the rows)
def relevance_lengthscales(X: FloatArray, y: FloatArray) -> FloatArray:
    """Return one lengthscale per input at the posterior mode of a full GP's hyperparameters, [D].

    The mode is of the log marginal likelihood plus a lognormal prior around sqrt(2 D), the distance of two standardised
    rows. With few rows the prior dominates and all lengthscales stay equal.

    Raises:
        ValueError: if shapes disagree, or a value is not finite.

    Equation: Rasmussen & Williams 2006, Eq. (2.30), Sec. 5.1
    """
    likelihood, inputs = FullGPLikelihood(X, y), X.shape[1]
    centre = np.log(np.concatenate([[1.0], np.full(inputs, np.sqrt(2.0 * inputs)), [NOISE]]))

    def value_and_gradient(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = likelihood.value_and_gradient(theta)
        away = (theta - centre) / SPREAD
        return value + 0.5 * float(away @ away), gradient + away / SPREAD

    # with few rows, copies would drive noise and lengthscales to 0
    within = Bounds(centre - FARTHEST * SPREAD, centre + FARTHEST * SPREAD)
    found = minimise(value_and_gradient, centre, Budget(evaluations=MAX_EVALUATIONS), within)
    return np.asarray(np.exp(found.point[1:-1]))
