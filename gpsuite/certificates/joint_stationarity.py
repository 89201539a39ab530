"""Whether a stored posterior of several classes or of a regression is the one that its rows and targets give.

- Several classes, Laplace's method with the softmax: with f_c = K alpha_c, alpha = Y - softmax(f), and R =
  (K + W^-1)^-1 with W = diag(pi) - pi pi' at every datum (Rasmussen & Williams 2006, Eq. 3.39 and Sec. 3.5).
- Exact regression: alpha = (y - K alpha) / noise, and S = 1 / noise (their Eq. 2.25).
- Sparse regression: the optimum of the variational bound with Gaussian observations (Titsias 2009, Eq. 6), where the
  gradient of the bound in the inducing values is zero.

The code shares nothing with `gpsuite.models`.

Equation: Rasmussen & Williams 2006, Eq. (3.39), Eq. (2.25), Eq. (2.26)
Equation: Titsias 2009, Eq. (6)
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from gpsuite.arrays import FloatArray
from gpsuite.certificates.joint_certificate import JointOrigin
from gpsuite.certificates.model import SOFTMAX, JointModel, only_function
from gpsuite.certificates.plain_kernel import gram
from gpsuite.certificates.stationarity import (
    ROUNDS,
    Residuals,
    mode_residuals,
    variational_residuals,
)


def joint_residuals(model: JointModel, origin: JointOrigin) -> Residuals:
    """Return the residuals of the equations of `origin.inference`, for arrays that fit together.

    They count as those of `stationarity.TOLERANCE`: every latent function's in prior standard deviations and in units
    of the prior covariance.
    """
    with np.errstate(all="ignore"):  # what overflows ends in inf or NaN, which is no residual to accept
        K = model.variance * gram(model.X, model.lengthscales, model.kernel)
        if model.likelihood == SOFTMAX:
            return _softmax_residuals(model, origin.targets, K)
        one, y, noise = only_function(model), origin.targets, model.noise
        if origin.inference == "exact":
            precision = np.full(len(y), 1.0 / noise)
            return mode_residuals(one, K, (y - K @ one.alpha) / noise, precision, 0.0)

        def derivatives(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
            return (y - mean) / noise, np.full(len(y), 1.0 / noise)

        return variational_residuals(one, origin.X, origin.jitter, derivatives)


def _softmax_residuals(model: JointModel, targets: FloatArray, K: FloatArray) -> Residuals:
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
            # sizes before the products, which cancel between rows that are almost equal
            size = (np.abs(K) @ np.abs(difference)) * (np.abs(K) @ np.abs(difference.T)).T
            squares += float(np.sum(terms)) * (1 if c == j else 2)
            sizes += float(np.sum(size)) * (1 if c == j else 2)
    condition = 1.0 + np.sqrt(np.sum(expected**2) * np.max(np.diagonal(K)))
    size = np.abs(model.alpha) + 1.0 + np.abs(model.alpha) @ K
    rounding = unit * max(condition, float(np.sqrt(np.sum(size @ K * size))))
    return Residuals(float(mean), float(np.sqrt(np.abs(squares) + unit * sizes)), 0.0, float(rounding))


def _weighted_root(pi: FloatArray, K: FloatArray) -> FloatArray | None:
    """Return V [C N, C, N] with (K + W^-1)^-1 = V'V; None if there is none.

    W = J J', J = diag(sqrt(pi)) (I - sqrt(pi) sqrt(pi)') at every datum; V = L^-1 J', L L' = I + J'KJ.
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
