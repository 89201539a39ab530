"""A plain bound over one box in extended precision, for checking certificates; shares no code with the search.

First-order expansion of the kernel's features around the box's centre c. With e_0 = phi(c) and e_j = d_j phi(c) /
sqrt(lambda), orthonormal, phi(c + delta) = kappa e_0 + psi sum_j delta_j e_j + rest, |rest|^2 <= tau; lambda =
-kappa''(0), psi(r) = -kappa'(r) / (r sqrt(lambda)), everything in lengthscales and in units of the prior variance s.
The tail tau is bounded by the first terms of its series. The classifier is the one of the stored floats:
mu = k' alpha, Sigma = s + sum_k c_k (F k)_k^2.

Up to `EXTENDED` data everything is in extended precision; beyond that the large matrix products are in double
precision. Either way their rounding is bounded and added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtr

FloatArray = npt.NDArray[np.float64]
LongArray = npt.NDArray[np.longdouble]
Long = np.longdouble

UNIT = float(np.finfo(Long).eps)
EXTENDED = 400
OUTWARD = 1e-12  # relative, for the last steps in double precision
QUADRATURE = 1e-11  # the trapezoid's error, a few times what is measured up to a standard deviation of 100
LOGISTIC = (1 / (6 * 3**0.5), 0.125, 0.1277)  # largest |sigma''|, |sigma'''|, |sigma''''|, rounded up
CURVATURE = {"squared_exponential": 1.0, "matern32": 3.0, "matern52": 5 / 3}


@dataclass(frozen=True)
class PlainModel:
    """The stored classifier.

    Attributes:
        X: [N, D] inputs.
        kernel: "squared_exponential", "matern32" or "matern52".
        variance: s.
        lengthscales: [D].
        alpha: [N].
        root: [r, N] F.
        weights: [r] c.
        link: "probit" (with `squeeze`, probability squeeze + (1 - 2 squeeze) Phi(t)) or "logistic".
        squeeze: 0 for the plain probit.
    """

    X: FloatArray
    kernel: str
    variance: float
    lengthscales: FloatArray
    alpha: FloatArray
    root: FloatArray
    weights: FloatArray
    link: str
    squeeze: float = 0.0


@dataclass(frozen=True)
class _Range:
    """A quadratic model b'delta + delta'M delta around `middle`, its one-sided errors, and an interval."""

    middle: Any
    linear: LongArray
    square: LongArray
    below: Any
    above: Any
    low: Any
    high: Any


class PlainBound:
    """Bounds the score over boxes of the free inputs; score: mu / sqrt(1 + Sigma) (probit), else the probability.

    Args:
        model: the stored classifier.
        centre: [D] the point; inputs that are not free stay there.
        free: [d] indices of the free inputs.

    Raises:
        ValueError: if the model is not one this bound knows.
    """

    def __init__(self, model: PlainModel, centre: FloatArray, free: npt.NDArray[np.int64]) -> None:
        if model.kernel not in CURVATURE or model.link not in ("probit", "logistic"):
            raise ValueError(f"no plain bound for kernel {model.kernel}, link {model.link}")
        self.model, self.s, self.curvature = model, Long(model.variance), Long(CURVATURE[model.kernel])
        self.centre, self.free = centre.astype(Long), free
        self.scale = model.lengthscales[free].astype(Long)
        self.work = Long if len(model.alpha) <= EXTENDED else np.float64
        scaled = (model.X.astype(Long) - self.centre) / model.lengthscales.astype(Long)
        self.U = scaled[:, free]
        others = np.sum(np.delete(scaled, free, axis=1) ** 2, axis=1)
        root, alpha = np.sqrt(self.s) * model.root.astype(Long), model.alpha.astype(Long)
        operations = len(alpha) + len(root) + 16 * scaled.shape[1] + 64
        rounding = operations * float(np.finfo(self.work).eps) * (1 + float(np.abs(scaled).max()))
        gram = _gram(scaled.astype(self.work), model.kernel)
        self.g, self.nu = _operator_range(gram, root.astype(self.work), model.weights, rounding)
        self.fixed = others
        if (
            model.kernel == "squared_exponential"
        ):  # the kernel factors: fold the fixed inputs into the weights
            fold = np.exp(-others / 2)
            alpha, root, self.fixed = alpha * fold, root * fold, np.zeros_like(others)
            gram = _gram(self.U.astype(self.work), model.kernel)
        self.alpha, self.Z, self.weights = alpha, root.astype(self.work), model.weights.astype(self.work)
        norm, size = alpha.astype(self.work) @ gram @ alpha.astype(self.work), np.abs(alpha)
        self.norm2 = max(Long(norm), Long(0)) + 4 * rounding * (size @ gram @ size)
        self.slack_mean = operations * UNIT * size.sum() * (1 + np.abs(self.U).max())
        weight = max(1.0, float(np.abs(model.weights).max(initial=0.0)))
        first = rounding * np.sqrt(np.sum(np.abs(self.weights) * np.sum(np.abs(self.Z), axis=1) ** 2))
        self.slack_gram = 2 * first * weight**0.5 + first**2 + 2 * rounding * weight

    def value(self, point: FloatArray) -> float:
        """Return the score at a point [d] of the free inputs, without any bound."""
        k = self._features((point.astype(Long) - self.centre[self.free]) / self.scale)[0][:, 0]
        mean = self.s * (k @ self.alpha)
        variance = self.s * (1 + np.sum(self.weights * (self.Z @ k.astype(self.work)) ** 2))
        return float(self._score(mean, max(variance, Long(0)))[0])

    def bounds(self, lo: FloatArray, hi: FloatArray) -> tuple[float, float]:
        """Return a lower and an upper bound of the score over the box [lo, hi], [d] each; NaN gives no bound."""
        origin = self.centre[self.free]
        low, high = (lo.astype(Long) - origin) / self.scale, (hi.astype(Long) - origin) / self.scale
        centre = (low + high) / 2
        r = np.maximum(high - centre, centre - low)
        r = r + 8 * UNIT * (np.abs(low) + np.abs(high)) + 4 * UNIT * np.abs(origin) / self.scale
        with np.errstate(all="ignore"):  # overflow ends in inf or NaN, which say nothing
            bottom, top = self._score_range(*self._moments(centre, r), r)
        bottom = bottom - OUTWARD * (1 + abs(bottom))
        top = top + OUTWARD * (1 + abs(top))
        return (float(bottom), float(top)) if bottom <= top else (-np.inf, np.inf)

    def probability(self, score: float) -> tuple[float, float]:
        """Return the class probability of a score, rounded down and up."""
        if self.model.link == "logistic":
            clipped = min(max(score, 0.0), 1.0)
            return clipped, clipped
        p = self.model.squeeze + (1 - 2 * self.model.squeeze) * float(ndtr(score))
        return p * (1 - OUTWARD), min(1.0, p * (1 + OUTWARD))

    def _features(self, centre: LongArray) -> tuple[LongArray, LongArray]:
        """Return the features [N, 1 + d] of the data around a scaled point, and kappa [N]."""
        D = self.U - centre
        distance = np.sqrt(np.sum(D**2, axis=1) + self.fixed)
        kappa, psi = _kappa(self.model.kernel, distance), _psi(self.model.kernel, distance)
        return np.column_stack([kappa, psi[:, None] * D]), kappa

    def _moments(self, centre: LongArray, r: LongArray) -> tuple[_Range, _Range]:
        """Return mean and variance over the box, in units of s; the variance is that of G + nu."""
        V, _ = self._features(centre)
        a = self.alpha @ V
        W = self.Z @ V.astype(self.work)
        G = (W.T @ (self.weights[:, None] * W)).astype(Long) + (1 + self.nu) * np.eye(V.shape[1], dtype=Long)
        rho = np.sqrt(np.sum(r**2)) * (1 + 8 * UNIT)
        tail = np.sqrt(_tail(self.model.kernel, rho))
        far = np.sqrt(np.maximum(2 * (1 - _kappa(self.model.kernel, rho)) + 16 * UNIT, 0))
        return self._mean(a, r, rho, tail, far), self._variance(G, r, rho, tail, far)

    def _mean(self, a: LongArray, r: LongArray, rho: Any, tail: Any, far: Any) -> _Range:
        kernel, root = self.model.kernel, np.sqrt(self.curvature)
        known = np.sum(np.maximum(np.abs(a) - self.slack_mean, 0) ** 2)
        rest = np.sqrt(max(self.norm2 - known, Long(0))) * tail
        linear, square = root * a[1:], -self.curvature * a[0] / 2 * np.eye(len(r), dtype=Long)
        bend = max(_kappa(kernel, rho) - 1 + self.curvature * rho**2 / 2, Long(0)) + 8 * UNIT * (1 + rho**2)
        flat = (root - _psi(kernel, rho)) * np.sum(np.abs(a[1:]) * r) + 8 * UNIT * np.sum(np.abs(a[1:]) * r)
        rounding = 4 * self.slack_mean * (1 + root * np.sum(r) + self.curvature * rho**2)
        below = flat + rest + rounding + max(-a[0], Long(0)) * bend
        above = flat + rest + rounding + max(a[0], Long(0)) * bend
        reach = np.sqrt(self.norm2) * far + rounding
        low, high = _quadratic_range(linear, square, r)
        return _Range(
            a[0], linear, square, below, above,
            a[0] + max(low - below, -reach), a[0] + min(high + above, reach),
        )  # fmt: skip

    def _variance(self, G: LongArray, r: LongArray, rho: Any, tail: Any, far: Any) -> _Range:
        kernel, lam, g = self.model.kernel, self.curvature, self.g + self.nu
        root, kappa, psi = np.sqrt(lam), _kappa(kernel, rho), _psi(kernel, rho)
        g0, b, block = G[0, 0], 2 * G[0, 1:], G[1:, 1:]
        rounding = 4 * self.slack_gram * (1 + root * np.sum(r) + lam * np.sum(r)) ** 2 + 16 * UNIT * (
            1 + rho**2
        )
        linear, square = root * b, lam * (block - g0 * np.eye(len(r), dtype=Long))
        length = (root - kappa * psi) * np.sum(np.abs(b) * r)
        curved = (lam - psi**2) * min(r @ np.abs(block) @ r, g * rho**2)
        below = length + curved + rounding
        above = max(g0, Long(0)) * max(lam * rho**2 - 1 + kappa**2, Long(0)) + length + rounding
        least, most = _quadratic_range(linear, square, r)
        lower, upper = max(g0 + least - below, Long(0)), max(g0 + most + above, Long(0))
        rest = np.sqrt(g) * tail
        deviation = np.sqrt(max(g0, Long(0)))
        nearest, farthest = np.sqrt(max(g0 - rounding, Long(0))), deviation + np.sqrt(rounding)
        low = max(np.sqrt(lower) - rest, nearest - np.sqrt(g) * far, Long(0)) ** 2
        high = min(np.sqrt(upper) + rest, farthest + np.sqrt(g) * far, np.sqrt(g)) ** 2
        mixed = 2 * np.sqrt(upper) * rest
        return _Range(g0, linear, square, below + mixed, above + mixed + rest**2, low, high)

    def _score_range(self, mean: _Range, variance: _Range, r: LongArray) -> tuple[Any, Any]:
        """Return the score's range: corners of (mean, variance), and the joint quadratic model."""
        s, nu = self.s, self.nu
        mu = s * mean.low, s * mean.high
        sigma = max(s * (variance.low - nu), Long(0)), max(s * (variance.high - nu), Long(0))
        low = self._score(mu[0], sigma[1] if mu[0] >= 0 else sigma[0])[0]
        high = self._score(mu[1], sigma[0] if mu[1] >= 0 else sigma[1])[0]
        mu0, sigma0 = s * mean.middle, max(s * (variance.middle - nu), Long(0))
        lost = sigma0 - s * (variance.middle - nu)
        value, by_mean, by_variance = self._score(mu0, sigma0)
        curved = self._second_order(
            max(mu[1] - mu0, mu0 - mu[0]), max(sigma[1] - sigma0, sigma0 - sigma[0]),
            min(sigma[0], sigma0), max(abs(mu[0]), abs(mu[1])),
        )  # fmt: skip
        linear = s * (by_mean * mean.linear + by_variance * variance.linear)
        square = s * (by_mean * mean.square + by_variance * variance.square)
        rise = s * variance.above if by_variance >= 0 else s * variance.below + lost
        fall = s * variance.below + lost if by_variance >= 0 else s * variance.above
        least, most = _quadratic_range(linear, square, r)
        error = curved + (0 if self.model.link == "probit" else QUADRATURE * (1 + abs(least) + abs(most)))
        joint_low = value + least - s * by_mean * mean.below - abs(by_variance) * fall - error
        joint_high = value + most + s * by_mean * mean.above + abs(by_variance) * rise + error
        return max(low - QUADRATURE, joint_low), min(high + QUADRATURE, joint_high)

    def _score(self, mean: Any, variance: Any) -> tuple[Any, Any, Any]:
        """Return the score and its derivatives in mean and variance."""
        if self.model.link == "probit":
            width = np.sqrt(1 + variance)
            return mean / width, 1 / width, -mean / (2 * width**3)
        deviation = float(np.sqrt(variance))
        step = min(0.05, 0.5 / deviation) if deviation > 0 else 0.05
        grid = np.arange(-np.ceil(12 / step), np.ceil(12 / step) + 1) * step
        density = step * np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
        p = expit(float(mean) + deviation * grid)
        first = p * (1 - p)
        return Long(density @ p), Long(density @ first), Long(density @ (first * (1 - 2 * p))) / 2

    def _second_order(self, d_mean: Any, d_variance: Any, least: Any, largest: Any) -> Any:
        if self.model.link == "probit":
            first = d_mean * d_variance / (2 * (1 + least) ** Long(1.5))
            return first + 3 * d_variance**2 * largest / (8 * (1 + least) ** Long(2.5))
        second, third, fourth = LOGISTIC
        return second * d_mean**2 / 2 + third * d_mean * d_variance / 2 + fourth * d_variance**2 / 8


def _quadratic_range(linear: LongArray, square: LongArray, r: LongArray) -> tuple[Any, Any]:
    """Return bounds of b'delta + delta'M delta over |delta_j| <= r_j, with |M_jk d_j d_k| split by AM-GM."""
    low = _quadratic_minimum(linear, square, r)
    return low, -_quadratic_minimum(-linear, -square, r)


def _quadratic_minimum(linear: LongArray, square: LongArray, r: LongArray) -> Any:
    total = Long(0)
    for j in np.flatnonzero(r > 0):
        others = np.sum(np.abs(np.delete(square[j], j)) * np.delete(r, j)) / r[j]
        curve, slope = square[j, j] - others, abs(linear[j])
        interior = curve > 0 and slope <= 2 * curve * r[j]
        total += -(slope**2) / (4 * curve) if interior else curve * r[j] ** 2 - slope * r[j]
    return total - 64 * UNIT * (np.sum(np.abs(linear) * r) + r @ np.abs(square) @ r)


def _kappa(kernel: str, r: Any) -> Any:
    if kernel == "squared_exponential":
        return np.exp(-(r**2) / 2)
    if kernel == "matern32":
        z = np.sqrt(Long(3)) * r
        return (1 + z) * np.exp(-z)
    z = np.sqrt(Long(5)) * r
    return (1 + z + z**2 / 3) * np.exp(-z)


def _psi(kernel: str, r: Any) -> Any:
    """Return -kappa'(r) / (r sqrt(lambda))."""
    if kernel == "squared_exponential":
        return np.exp(-(r**2) / 2)
    if kernel == "matern32":
        return np.sqrt(Long(3)) * np.exp(-np.sqrt(Long(3)) * r)
    z = np.sqrt(Long(5)) * r
    return np.sqrt(Long(5) / 3) * (1 + z) * np.exp(-z)


def _tail(kernel: str, r: Any) -> Any:
    """Return an upper bound of 1 - kappa^2 - kappa'^2 / lambda up to r, by its series' first terms."""
    if kernel == "squared_exponential":
        series = r**4 / 2
    elif kernel == "matern32":
        series = 4 * (np.sqrt(Long(3)) * r) ** 3 / 3
    else:
        z = np.sqrt(Long(5)) * r
        series = 2 * z**4 / 9 + (2 * z) ** 5 / 120
    direct = 1 - _kappa(kernel, r) ** 2 - (r * _psi(kernel, r)) ** 2
    return min(series * (1 + 64 * UNIT), max(direct, Long(0)) + 64 * UNIT, Long(1))


def _gram(points: Any, kernel: str) -> Any:
    """Return kappa between all points [N, D], in their precision."""
    squared = np.zeros((len(points), len(points)), dtype=points.dtype)
    for column in points.T:
        squared += (column[:, None] - column) ** 2
    return _kappa(kernel, np.sqrt(squared)).astype(points.dtype)


def _operator_range(gram: Any, root: Any, weights: FloatArray, rounding: float) -> tuple[Any, Any]:
    """Return (g, nu) with -nu <= G <= g for G = I + sum_k c_k z_k z_k*, from the Gram matrix M of the z_k.

    G is the identity but on the span of the z_k, where its eigenvalues are those of I + M^1/2 diag(c) M^1/2.
    """
    M = np.asarray(root @ gram @ root.T, dtype=np.float64)
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    largest, size = (max(1.0, float(np.abs(each).max(initial=0.0))) for each in (weights, values))
    error = 64 * (len(weights) + 1) * 2.0**-53 * size + 4 * rounding * float(
        np.sum(np.sum(np.abs(root), axis=1) ** 2)
    )
    if len(np.unique(weights)) <= 1:
        spectrum = values * weights
    else:
        half = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        spectrum = np.linalg.eigvalsh((half * weights) @ half)
        error = 2 * (size * error) ** 0.5 + error  # a square root may move by the root of what M moves
    nu = max(0.0, -(1 + float(spectrum.min(initial=0.0)))) + largest * error
    return Long(max(1.0, 1 + float(spectrum.max(initial=0.0))) + largest * error), Long(nu)
