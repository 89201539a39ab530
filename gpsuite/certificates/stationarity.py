"""Check that a stored posterior is the one that its inference gives for rows and targets.

Most have the form mu = k' alpha, Sigma = s - k' R k, R = (K + S^-1)^-1 with a diagonal S >= 0. Equations determine them
that can be checked without solving them again (Rasmussen & Williams 2006, Sec. 3.4 to 3.6):

- Laplace: f = K alpha, alpha = d log p(y|f) / df (their Eq. 3.17), and S = -d2 log p(y|f) / df2. With the softmax,
  f_c = K alpha_c, alpha = Y - softmax(f), and S is diag(pi) - pi pi' at every datum (Eq. 3.39).
- EP: with site precisions S and shifts nu, alpha = (I + S K)^-1 nu. Every site's tilted distribution has the mean and
  the variance of the posterior's marginal.
- Exact regression: alpha = (y - K alpha) / noise, and S = 1 / noise (their Eq. 2.25).
- Variational, and sparse regression with Gaussian observations (Titsias 2009, Eq. 6): q(u) = N(m, C C') is of whitened
  values, f(Z) = L u with L L' = K_ZZ + jitter. It maximises sum_i E log p(y_i|f_i) - KL(q || N(0, I)) (Hensman et al.
  2015, Eq. 18). Take columns p_i = L^-1 k(Z, X_i), or those of L' if every row has a value. Let g_i = E d log p / df
  and h_i = -E d2 log p / df2 under f_i's marginal. Then m = sum_i g_i p_i and (C C')^-1 = I + sum_i h_i p_i p_i'.
  Natural gradients are zero exactly there.

The code shares nothing with `gpsuite.models`.

Equation: Rasmussen & Williams 2006, Eq. (2.25), Eq. (2.26), Eq. (3.17), Eq. (3.27), Eq. (3.39), Eq. (3.53)
Equation: Hensman et al. 2015, Eq. (18)
Equation: Titsias 2009, Eq. (6)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import expit, log_ndtr

from gpsuite.arrays import FloatArray
from gpsuite.certificates.certificate import Origin
from gpsuite.certificates.model import GAUSSIAN, SOFTMAX, Model
from gpsuite.certificates.plain_kernel import gram, kappa
from gpsuite.certificates.plain_model import PlainLatent, PlainModel
from gpsuite.certificates.plain_scores import expected_derivatives, logistic_moments

TOLERANCE = 1e-6
"""Largest residual of a posterior that counts as the stated one.

Mean: |mu - mu'| <= sqrt(s) times the residual everywhere. For Laplace's method mu' is the exact mode's mean, because
the log posterior is 1-strongly concave in the RKHS norm. Covariance: |Sigma - Sigma'| <= s times the residual
everywhere, Sigma' from S at the stored mean. Moments: means in marginal standard deviations, variances relative.
Variational: the bound is 1-strongly concave in m and a symmetric C for a log-concave link, so that both lie within the
length of its gradient, whose two parts are the residuals: |mu - mu'| <= sqrt(2 s) times the largest of them everywhere,
and |Sigma - Sigma'| <= 3 s times it where Sigma <= 1.2 s. For a squeezed link they say that it is a stationary point.
"""

ROUNDS = 64.0  # multiple of N u: residuals below this rounding decide nothing


@dataclass(frozen=True)
class Residuals:
    """Distance of a stored posterior from its equations, and the part that rounding can cause.

    Attributes:
        mean: residual of alpha's equation, in the RKHS norm, in prior standard deviations.
        covariance: residual of R, in units of the prior covariance.
        moments: largest disagreement of a tilted and a posterior marginal, 0 except for EP.
        rounding: largest change of these numbers by rounding.
    """

    mean: float
    covariance: float
    moments: float
    rounding: float

    @property
    def largest(self) -> float:
        """The largest of the three residuals. NaN counts as infinite."""
        worst = max(np.nan_to_num(each, nan=np.inf) for each in (self.mean, self.covariance, self.moments))
        return float(worst)


def stationarity_residuals(model: Model, origin: Origin) -> Residuals:
    """Return the residuals of the equations of `origin.inference`, for arrays that fit together."""
    with np.errstate(all="ignore"):  # overflow gives inf or NaN, which is not an acceptable residual
        if origin.inference in ("variational", "sparse"):
            return _variational_residuals(model, origin)
        K = model.variance * gram(model.X, model.lengthscales, model.kernel)
        if model.likelihood == SOFTMAX:
            return _softmax_residuals(model, origin.targets, K)
        one = _function(model)
        f, moments = K @ one.alpha, 0.0
        if origin.inference == "exact":
            slope, precision = (origin.targets - f) / model.noise, np.full(len(f), 1.0 / model.noise)
        elif origin.inference == "laplace":
            slope, precision = _log_likelihood_derivatives(model.likelihood, _signs(origin), f)
        else:
            precision, shift = origin.sites
            slope = shift - precision * f  # alpha = (I + S K)^-1 nu
            moments = _moment_gap(model.binary, origin, K, f)
        return mode_residuals(one, K, slope, precision, moments)


def _function(model: Model) -> PlainLatent:
    return model.only if model.likelihood == GAUSSIAN else model.binary


def _signs(origin: Origin) -> FloatArray:
    """Return the labels of two classes, -1 or 1, [N]."""
    return np.asarray(2.0 * origin.targets - 1.0)


def mode_residuals(
    model: PlainLatent, K: FloatArray, slope: FloatArray, precision: FloatArray, moments: float
) -> Residuals:
    """Return the residuals of alpha = slope and R = (K + S^-1)^-1, S = diag(precision), for K between the data."""
    gap = model.alpha - slope
    unit = ROUNDS * len(slope) * 2.0**-53
    # the rounding of the sum is added: a cancelling sum decides nothing
    mean = np.sqrt(np.abs(gap @ K @ gap) + unit * (np.abs(gap) @ K @ np.abs(gap)))
    covariance, condition = _covariance_residual(model, K, precision, unit)
    size = np.abs(model.alpha) + np.abs(slope) + precision * (K @ np.abs(model.alpha))
    return Residuals(float(mean), covariance, moments, float(unit * max(condition, np.sqrt(size @ K @ size))))


def _variational_residuals(model: Model, origin: Origin) -> Residuals:
    """Return the length of the variational bound's gradient in m and in the symmetric root of the covariance."""
    one, X = _function(model), origin.X  # [N, D] the data, [0, D] if they are the model's
    Z, n = model.X / model.lengthscales, len(model.X)
    prior = model.variance * gram(model.X, model.lengthscales, model.kernel) + origin.jitter * np.eye(n)
    try:
        L = cholesky(prior, lower=True)
        P = L.T
        if len(X):
            cross = kappa(model.kernel, cdist(Z, X / model.lengthscales))
            P = solve_triangular(L, model.variance * cross, lower=True)
        features = one.root @ L
        covariance = np.eye(n) + (features.T * one.weights) @ features
        spectrum, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    except (ValueError, np.linalg.LinAlgError):  # not finite, or no covariance
        return Residuals(np.inf, np.inf, 0.0, 0.0)
    m = L.T @ one.alpha
    spread = np.sum((vectors.T @ P) ** 2 * spectrum[:, None], axis=0)
    if X.size:  # variance that the inducing values leave open
        spread += model.variance - np.sum(P**2, axis=0)
    if not spectrum[0] > 0 or not np.min(spread) > 0:
        return Residuals(np.inf, np.inf, 0.0, 0.0)
    slope, bend = _expected_derivatives(model, origin, P.T @ m, spread)
    root = np.sqrt(spectrum)[:, None]
    precision = vectors.T + (vectors.T @ P * bend) @ P.T  # the eigenvectors times I + sum_i h_i p_i p_i'
    unit = ROUNDS * len(slope) * 2.0**-53
    size = np.linalg.norm(P) * np.linalg.norm(slope) + np.linalg.norm(m)
    size += np.linalg.norm(P) ** 2 * np.max(np.abs(bend)) + spectrum[0] ** -1.5
    condition = np.linalg.norm(L) * np.linalg.norm(solve_triangular(L, np.eye(n), lower=True))
    return Residuals(
        float(np.linalg.norm(P @ slope - m)),
        float(np.linalg.norm(vectors.T / root - root * precision)),
        0.0,
        float(unit * condition * size),
    )


def _expected_derivatives(
    model: Model, origin: Origin, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return E d log p / df and -E d2 log p / df2, [N] each, for means and variances at the data."""
    if model.likelihood == GAUSSIAN:
        return (origin.targets - mean) / model.noise, np.full(len(mean), 1.0 / model.noise)
    return expected_derivatives(model.likelihood, model.squeeze, _signs(origin), mean, variance)


def _log_likelihood_derivatives(link: str, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the first derivative of log p(y|f) in f and minus the second, [N] each."""
    if link == "logistic":
        return y * expit(-y * f), expit(f) * expit(-f)
    ratio = np.exp(-(f**2) / 2 - log_ndtr(y * f)) / np.sqrt(2 * np.pi)
    return y * ratio, ratio * (ratio + y * f)


def _covariance_residual(model: PlainLatent, K: FloatArray, precision: FloatArray, unit: float) -> tuple[float, float]:
    """Return the Frobenius norm of K^1/2 (R - R') K^1/2, and the size of its cancelling terms."""
    root = np.sqrt(precision)  # NaN if this is not a precision
    B = np.eye(len(K)) + root[:, None] * K * root
    if not np.all(np.isfinite(B)):
        return np.inf, np.inf
    try:
        expected = solve_triangular(cholesky(B, lower=True), np.diag(root), lower=True)
    except np.linalg.LinAlgError:
        return np.inf, np.inf
    stored = -(model.root.T * model.weights) @ model.root
    gap = stored - expected.T @ expected
    # sizes before the products: between almost equal rows these cancel to zero, regardless of the gap
    difference, size = gap @ K, np.abs(gap) @ np.abs(K)
    residual = np.sqrt(np.abs(np.sum(difference * difference.T)) + unit * np.sum(size * size.T))
    return float(residual), float(1.0 + np.sqrt(np.sum(expected**2) * np.max(np.diagonal(K))))


def _moment_gap(model: PlainModel, origin: Origin, K: FloatArray, f: FloatArray) -> float:
    """Return the largest disagreement of the marginals with the tilted distributions of the sites."""
    precision, shift = origin.sites
    features = model.root @ K
    variance = np.diagonal(K) + model.weights @ features**2
    cavity = 1 / (1 / variance - precision)
    mean = cavity * (f / variance - shift)
    first, second = _log_partition_derivatives(model.link, _signs(origin), mean, cavity)
    tilted_mean, tilted_variance = mean + cavity * first, cavity + cavity**2 * second
    gaps = np.maximum(np.abs(tilted_mean - f) / np.sqrt(variance), np.abs(tilted_variance / variance - 1))
    usable = np.all(cavity > 0) and np.all(variance > 0)
    return float(np.max(gaps)) if usable else np.inf


def _log_partition_derivatives(
    link: str, y: FloatArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return two derivatives of log E p(y|f), f ~ N(mean, variance), in the mean, [N] each."""
    if link == "logistic":
        value, slope, half_bend = logistic_moments(y * mean, variance)
        ratio = slope / value
        return y * ratio, 2 * half_bend / value - ratio**2
    width = np.sqrt(1 + variance)
    z = y * mean / width
    ratio = np.exp(-(z**2) / 2 - log_ndtr(z)) / np.sqrt(2 * np.pi)
    return y * ratio / width, -ratio * (ratio + z) / width**2


def _softmax_residuals(model: Model, targets: FloatArray, K: FloatArray) -> Residuals:
    C, n = model.alpha.shape
    f = model.alpha @ K
    pi = np.exp(f - f.max(axis=0))
    pi /= pi.sum(axis=0)
    Y = targets == np.arange(C)[:, None]
    gap = model.alpha - (Y - pi)
    unit = ROUNDS * n * C * 2.0**-53
    mean = np.sqrt(np.abs(np.sum(gap @ K * gap)) + unit * np.sum(np.abs(gap) @ K * np.abs(gap)))
    expected = _weighted_root(pi, K)
    if expected is None:
        return Residuals(np.inf, np.inf, 0.0, 0.0)
    stored = model.root * np.sqrt(np.abs(model.weights))[:, None, None]
    signs, squares, sizes = -np.sign(model.weights), 0.0, 0.0
    for c in range(C):
        for j in range(c, C):
            difference = (stored[:, c].T * signs) @ stored[:, j] - expected[:, c].T @ expected[:, j]
            # tr(K D K D') of this block, and of its mirror image
            terms = (K @ difference) * (K @ difference.T).T
            # sizes before the products, which cancel between almost equal rows
            size = (np.abs(K) @ np.abs(difference)) * (np.abs(K) @ np.abs(difference.T)).T
            squares += float(np.sum(terms)) * (1 if c == j else 2)
            sizes += float(np.sum(size)) * (1 if c == j else 2)
    condition = 1.0 + np.sqrt(np.sum(expected**2) * np.max(np.diagonal(K)))
    size = np.abs(model.alpha) + 1.0 + np.abs(model.alpha) @ K
    rounding = unit * max(condition, float(np.sqrt(np.sum(size @ K * size))))
    return Residuals(float(mean), float(np.sqrt(np.abs(squares) + unit * sizes)), 0.0, float(rounding))


def _weighted_root(pi: FloatArray, K: FloatArray) -> FloatArray | None:
    """Return V [C N, C, N] with (K + W^-1)^-1 = V'V, or None if it does not exist.

    W = J J', J = diag(sqrt(pi)) (I - sqrt(pi) sqrt(pi)') at every datum. V = L^-1 J', L L' = I + J'KJ.
    """
    C, n = pi.shape
    q = np.sqrt(pi)
    J = q[:, None] * (np.eye(C)[:, :, None] - q[:, None] * q[None])
    B = np.einsum("cai,ij,cbj->aibj", J, K, J, optimize=True).reshape(C * n, C * n)
    B.flat[:: C * n + 1] += 1.0
    right = np.zeros((C, n, C, n))
    right[:, np.arange(n), :, np.arange(n)] = J.transpose(2, 1, 0)
    try:
        lower = cholesky(B, lower=True)
    except (ValueError, np.linalg.LinAlgError):  # not finite, or no covariance
        return None
    found = solve_triangular(lower, right.reshape(C * n, C * n), lower=True)
    return np.asarray(found.reshape(C * n, C, n))
