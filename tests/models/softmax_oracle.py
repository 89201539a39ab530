"""Class probabilities of several classes, by the definition and by random utilities.

Extended precision, or double for what is not close to a claim.

The softmax is the distribution of the largest of f_j + G_j, G_j independent Gumbel variables (McFadden 1974). With
f_j = m_j + v_j z + d_j e_j, all e_j and z independent and normal, the sums are independent given z, so that
p_c = E_z int dP(f_c + G_c <= t) prod_{j != c} P(f_j + G_j <= t): integrals in one dimension for any number of classes.
All integrands are analytic in a strip, so the trapezoidal rule is as exact as the numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from tests.arrays import Array

Long = np.longdouble
PI = Long("3.14159265358979323846264338327950288")
DIGITS = {Long: Long(40), np.float64: np.float64(34)}  # the rule's error is e^-DIGITS
REACH = {Long: Long(9), np.float64: np.float64(8)}  # deviations: beyond it is 1e-18, 1e-15
DOUBLE_ERROR = 1e-13  # of a probability in double precision: two tests compare it with the extended one


def extended_latent(posterior: MultiClassPosterior, points: Array) -> tuple[Any, Any]:
    """Return mean [B, C] and covariance [B, C, C] at points [B, D], summed in extended precision."""
    lengths, X = posterior.lengthscales.astype(Long), posterior.X.astype(Long)
    q = np.sum(((points.astype(Long)[:, None] - X) / lengths) ** 2, axis=2)
    z = np.sqrt(q * {"squared_exponential": 1, "matern32": 3, "matern52": 5}[posterior.kernel])
    shape = {
        "squared_exponential": lambda: np.exp(-q / 2),
        "matern32": lambda: (1 + z) * np.exp(-z),
        "matern52": lambda: (1 + z + z * z / 3) * np.exp(-z),
    }[posterior.kernel]()
    k = Long(posterior.variance) * shape
    features = np.einsum("bn,rcn->brc", k, posterior.root.astype(Long))
    covariance = np.einsum("brc,r,brj->bcj", features, posterior.weights.astype(Long), features)
    covariance += Long(posterior.variance) * np.eye(posterior.n_classes)
    return np.einsum("bn,cn->bc", k, posterior.alpha.astype(Long)), covariance


def _rule(strip: Any) -> tuple[Any, Any]:
    """Return nodes and weights of the normal density for integrands that are bounded in a strip of this half-width."""
    real = type(strip)
    a = min(strip, real(6))
    step = 2 * real(PI) * a / (DIGITS[real] + a * a / 2)
    count = int(np.ceil(REACH[real] / step))
    nodes = step * np.arange(-count, count + 1)
    return nodes, step * np.exp(-nodes * nodes / 2) / np.sqrt(2 * real(PI))


def direct_probabilities(mean: Any, covariance: Any, real: Any = Long) -> Any:
    """Return the class probabilities [C] of two or three classes, over the normal variables of the differences."""
    D = covariance[1:, 1:] - covariance[1:, :1] - covariance[:1, 1:] + covariance[0, 0]
    root = np.zeros_like(D)
    root[0, 0] = np.sqrt(max(D[0, 0], Long(0)))
    if len(D) == 2:
        root[1, 0] = D[1, 0] / root[0, 0] if root[0, 0] > 0 else Long(0)
        root[1, 1] = np.sqrt(max(D[1, 1] - root[1, 0] ** 2, Long(0)))
    root, offset = root.astype(real), (mean[1:] - mean[0]).astype(real)
    columns = [np.append(root[:, k], real(0)) for k in range(len(D))]
    rules = [_rule(real("2.8") / max(column.max() - column.min(), real("0.4"))) for column in columns]  # 2.8 < pi
    nodes = np.stack(np.meshgrid(*[nodes for nodes, _ in rules], indexing="ij")).reshape(len(D), -1)
    weights = np.prod(np.meshgrid(*[weights for _, weights in rules], indexing="ij"), axis=0).ravel()
    f = np.vstack([np.zeros(nodes.shape[1], real), offset[:, None] + root @ nodes])
    p = np.exp(f - f.max(axis=0))
    return (p / p.sum(axis=0)) @ weights


def utility_probabilities(mean: Any, deviation: Any, shared: Any, real: Any = Long) -> Any:
    """Return the class probabilities [C] for f_j = mean_j + shared_j z + deviation_j e_j."""
    mean, deviation, shared = mean.astype(real), deviation.astype(real), shared.astype(real)
    spread = shared.max() - shared.min()
    if spread == 0:
        return _independent(mean, deviation)
    nodes, weights = _rule(real("2.8") / max(spread, real("0.4")))
    return sum(w * _independent(mean + shared * z, deviation) for z, w in zip(nodes, weights, strict=True))


def _independent(mean: Any, deviation: Any) -> Any:
    real = mean.dtype.type
    digits, reach = DIGITS[real], REACH[real]
    low = np.max(mean - reach * deviation) - 4
    high = np.max(mean + np.maximum(reach * deviation, deviation**2 / 2)) + digits
    step = 2 * real(PI) * real("1.5") / digits  # 1.5 < pi / 2
    t = np.arange(low, high + step, step)
    below, density = [], []
    for m, d in zip(mean, deviation, strict=True):
        nodes, weights = _rule(real("1.5") / max(d, real("0.25")))
        decay = np.exp(m - t)[:, None] * np.exp(d * nodes)
        cdf = np.exp(-decay)
        below.append(cdf @ weights)
        density.append((cdf * decay) @ weights)
    found = []
    for c in range(len(mean)):
        others = [below[j] for j in range(len(mean)) if j != c]
        found.append(step * np.sum(density[c] * np.prod(others, axis=0)))
    return np.array(found)
