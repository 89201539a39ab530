"""Risk, KL and bound of a stored predictor by textbook formulas in extended precision: the checker's arithmetic.

The code that trains and certifies shares nothing with it. Kernels come from differences. Cholesky factorisation and
triangular solve are written out. Predictive moments replace the short cuts at the training inputs. Probabilities use
erfc and bisection.

Equation: Reeb et al. 2018, Eq. (4), Eq. (6), Eq. (8), Eq. (9), Eq. (10), Eq. (11)
"""

from __future__ import annotations

import math

import numpy as np

from gpsuite.arrays import FloatArray, LongArray
from gpsuite.certificates.risk import FREE_FORM, FULL, Goal, Predictor
from gpsuite.data.splits import DifferentRows

Long = np.longdouble

# Largest number of multiplications in extended precision, about two minutes. Beyond it float64 is used, with its
# tolerance.
LONG_WORK = 2.5e10
LARGEST_FULL = 6000  # above this number of rows a full GP's matrix takes too much memory for a check
WORK_PER_MINUTE = 3e10  # multiplications in float64 on one core. Extended precision takes two minutes for fewer
_BLOCK = 1024  # rows of K_XZ held at once
_CUT = 64  # columns of a triangular solve that are done one by one
GRID_DECIMALS, GRID_EDGE = 2, 6.0
_BISECTIONS = 200


class UncheckableError(ArithmeticError):
    """Raised if the predictor's numbers cannot be computed."""


def work(predictor: Predictor, n: int) -> float:
    """Return the approximate number of multiplications of a check."""
    if predictor.posterior == FULL:
        return 2.0 * float(n) ** 3
    M = float(len(predictor.arrays["inducing_inputs"]))
    return 2.0 * n * M * M + 3.0 * M**3


def extended(predictor: Predictor, n: int) -> bool:
    """Return whether to compute in extended precision: if there is time and the platform supports it."""
    return work(predictor, n) <= LONG_WORK and np.finfo(Long).nmant >= 63


def on_grid(values: FloatArray) -> bool:
    """Return whether natural logarithms are whole hundredths in [-6, 6]: the grid of 1201 values of the bound."""
    hundredths = np.log(values) * 10.0**GRID_DECIMALS
    whole = np.abs(hundredths - np.rint(hundredths)) < 1e-6
    return bool(np.all(whole & (np.abs(hundredths) < GRID_EDGE * 10.0**GRID_DECIMALS + 1e-6)))


def risk_and_kl(
    predictor: Predictor, X: FloatArray, y: FloatArray, goal: Goal, epsilon: float, different: DifferentRows | None
) -> tuple[float, float, float]:
    """Return the Gibbs risk on the training rows and KL(Q||P) in nats.

    The risk is returned twice: the larger and the smaller of the means over all rows and over the different ones.

    Args:
        predictor: the stored predictor.
        X: standardised inputs [n, D].
        y: standardised targets [n].
        goal: the bounded loss and its width.
        epsilon: width of the loss in standardised units.
        different: the different rows if some are copies of others, otherwise None. The loss of a `seen` row is 1.

    Raises:
        UncheckableError: if a matrix is not positive definite or a number not finite.
    """
    kind = Long if extended(predictor, len(y)) else np.float64
    inputs, targets = np.asarray(X, dtype=kind), np.asarray(y, dtype=kind)
    with np.errstate(all="ignore"):
        if predictor.posterior == FULL:
            mean, variance, kl = _full(predictor, inputs, targets)
        else:
            mean, variance, kl = _sparse(predictor, inputs, targets)
        losses = (
            _band(targets, mean, variance, epsilon) if goal.loss == "band01" else _exp(targets, mean, variance, epsilon)
        )
    once = losses if different is None else np.where(different.seen, 1.0, losses[different.places])
    risks = [float(losses.mean()), float(once.mean())]
    if not all(map(math.isfinite, (*risks, kl))):
        raise UncheckableError("risk or KL is not finite")
    high, low = (min(max(risk, 0.0), 1.0) for risk in (max(risks), min(risks)))
    return high, low, max(kl, 0.0)


def penalty(kl: float, n: int, hyperparameters: int, delta: float) -> float:
    """Return c = (KL + T ln 1201 + ln(2 sqrt(n) / delta)) / n."""
    values = 2 * int(GRID_EDGE) * 10**GRID_DECIMALS + 1
    return (kl + hyperparameters * math.log(values) + math.log(2.0 * math.sqrt(n) / delta)) / n


def largest_risk(risk: float, c: float) -> float:
    """Return an upper end of the p >= risk with kl(risk || p) <= c, up to the rounding of kl as computed."""
    return _end(risk, 1.0, c)


def smallest_risk(risk: float, c: float) -> float:
    """Return a lower end of the p <= risk with kl(risk || p) <= c, up to the rounding of kl as computed."""
    return _end(risk, 0.0, c)


def _end(risk: float, outside: float, c: float) -> float:
    """Return a point just outside of kl(risk || p) <= c, by bisection between the risk and `outside`."""
    inside = risk
    for _ in range(_BISECTIONS):
        middle = 0.5 * (inside + outside)
        if _binary_kl(risk, middle) <= c:
            inside = middle
        else:
            outside = middle
    return outside


def _binary_kl(q: float, p: float) -> float:
    first = 0.0 if q == 0.0 else (q * math.log(q / p) if p > 0.0 else math.inf)
    second = 0.0 if q == 1.0 else ((1.0 - q) * math.log((1.0 - q) / (1.0 - p)) if p < 1.0 else math.inf)
    return first + second


def _kernel(predictor: Predictor, left: LongArray, right: LongArray) -> LongArray:
    lengthscales = predictor.arrays["lengthscales"].astype(left.dtype)
    exponent = np.zeros((len(left), len(right)), dtype=left.dtype)
    for d in range(left.shape[1]):
        scale = lengthscales[d if len(lengthscales) > 1 else 0]
        exponent += ((left[:, d, None] - right[None, :, d]) / scale) ** 2
    return np.asarray(predictor.variance * np.exp(-exponent / 2))


def _cholesky(matrix: LongArray) -> LongArray:
    """Return the lower factor, column by column."""
    L = np.zeros_like(matrix)
    for j in range(len(matrix)):
        column = matrix[j:, j] - L[j:, :j] @ L[j, :j]
        if not column[0] > 0.0:
            raise UncheckableError(f"a covariance matrix is not positive definite (row {j + 1})")
        L[j:, j] = column / np.sqrt(column[0])
    return L


def _half_solve(L: LongArray, right: LongArray) -> LongArray:
    """Return L^-1 B by substitution, in strips."""
    solution = right.copy()
    for i in range(0, len(L), _CUT):
        e = min(i + _CUT, len(L))
        solution[i:e] -= L[i:e, :i] @ solution[:i]
        for k in range(i, e):
            solution[k] = (solution[k] - L[k, i:k] @ solution[i:k]) / L[k, k]
    return solution


def _back_solve(L: LongArray, right: LongArray) -> LongArray:
    """Return L^-T b of a vector."""
    return _half_solve(L.T[::-1, ::-1], right[::-1])[::-1]


def _full(predictor: Predictor, X: LongArray, y: LongArray) -> tuple[LongArray, LongArray, float]:
    """Return mean and variance at the training inputs, and the KL: Eq. 6 and 8 of Reeb et al. 2018."""
    n, s = len(y), X.dtype.type(predictor.noise_variance)
    K = _kernel(predictor, X, X)
    C = _cholesky(K + s * np.eye(n, dtype=X.dtype))
    alpha = _back_solve(C, _half_solve(C, y))
    W = _half_solve(C, K)
    mean, variance = K @ alpha, np.diagonal(K) - (W * W).sum(axis=0)
    # the posterior covariance is s K (K + s I)^-1
    trace = variance.sum() / s
    log_determinant = 2 * np.log(np.diagonal(C)).sum() - n * np.log(s)
    return mean, variance, float((log_determinant - trace + alpha @ K @ alpha) / 2)


def _sparse(predictor: Predictor, X: LongArray, y: LongArray) -> tuple[LongArray, LongArray, float]:
    """Return mean, variance and KL for a posterior of inducing variables: Eq. 9 to 11, whitened."""
    Z = predictor.arrays["inducing_inputs"].astype(X.dtype)
    M, n = len(Z), len(y)
    K = _kernel(predictor, Z, Z)
    K[np.diag_indices(M)] = X.dtype.type(predictor.variance) * (1 + X.dtype.type(predictor.jitter))
    L = _cholesky(K)
    V = np.empty((M, n), dtype=X.dtype)
    for i in range(0, n, _BLOCK):
        V[:, i : i + _BLOCK] = _half_solve(L, _kernel(predictor, Z, X[i : i + _BLOCK]))
    spare = np.maximum(predictor.variance - (V * V).sum(axis=0), 0)
    if predictor.posterior == FREE_FORM:
        m, T = (predictor.arrays[name].astype(X.dtype) for name in ("whitened_mean", "whitened_factor"))
        kl = ((T * T).sum() - M + m @ m) / 2 - np.log(np.abs(np.diagonal(T))).sum()
        half = T.T @ V
    else:
        noise = predictor.noise_variance + predictor.alpha * spare
        precision = np.eye(M, dtype=X.dtype) + (V / noise) @ V.T
        B = _cholesky(precision)
        m = _back_solve(B, _half_solve(B, V @ (y / noise)))
        inverse = _half_solve(B, np.eye(M, dtype=X.dtype))
        kl = np.log(np.diagonal(B)).sum() + ((inverse * inverse).sum() - M + m @ m) / 2
        half = _half_solve(B, V)
    return m @ V, spare + (half * half).sum(axis=0), float(kl)


_erfc = np.frompyfunc(math.erfc, 1, 1)


def _band(y: LongArray, mean: LongArray, variance: LongArray, epsilon: float) -> FloatArray:
    """Return P(|f - y| > epsilon), f ~ N(mean, variance)."""
    scale = np.sqrt(2 * np.maximum(variance, np.finfo(np.float64).tiny))
    above, below = (epsilon - (mean - y)) / scale, (epsilon + (mean - y)) / scale
    tails = _erfc(above.astype(np.float64)) + _erfc(below.astype(np.float64))
    return np.asarray(tails, dtype=np.float64) / 2


def _exp(y: LongArray, mean: LongArray, variance: LongArray, epsilon: float) -> FloatArray:
    """Return E[1 - exp(-((f - y) / epsilon)^2)], f ~ N(mean, variance)."""
    width = epsilon**2 + 2 * np.maximum(variance, 0)
    return np.asarray(1 - epsilon / np.sqrt(width) * np.exp(-((y - mean) ** 2) / width), dtype=np.float64)
