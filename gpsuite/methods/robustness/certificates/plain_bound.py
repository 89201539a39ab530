"""A plain bound over boxes in extended precision, for checking certificates; shares no code with the search.

First-order expansion of the kernel's features around the box's centre c. With e_0 = phi(c) and e_j = d_j phi(c) /
sqrt(lambda), orthonormal, phi(c + delta) = kappa e_0 + psi sum_j delta_j e_j + rest, |rest|^2 <= tau; lambda =
-kappa''(0), psi(r) = -kappa'(r) / (r sqrt(lambda)), everything in lengthscales and in units of the prior variance s.
The tail tau is bounded by the first terms of its series. The classifier is the one of the stored floats:
mu = k' alpha, Sigma = max(0, s + sum_k c_k (F k)_k^2).

Features are of differences X_i - c of stored floats, so that their error does not depend on how far the data lie
from the origin or from the point. What takes long is in double precision; where its rounding, which is bounded and
added like all others, would be felt, up to `EXTENDED` data are taken to extended precision. All else always is.

Equation: derived, stationary kernels to degree 1, quadratic form over a box
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from gpsuite.methods.robustness.certificates.plain_kernel import (
    UNIT,
    Long,
    LongArray,
    gram,
    kappa,
    psi,
    tail_bound,
)
from gpsuite.methods.robustness.certificates.plain_link import (
    DERIVATIVE,
    FADED,
    QUADRATURE,
    logistic_moments,
    logistic_remainder,
    logistic_value,
)

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

EXTENDED = 400
FELT = 1e-7  # rounding of latent moments, relative of the mean's norm, from which extended precision pays
OUTWARD = 1e-12  # relative, for the last steps in double precision
SMALLEST = 1e-300  # below it the normal distribution function has no relative accuracy any more
CURVATURE = {"squared_exponential": 1.0, "matern32": 3.0, "matern52": 5 / 3}
BLOCK = 1 << 19  # features that are held at once


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
    """For B boxes a quadratic model b'delta + delta'M delta around `middle`, its errors, and an interval.

    All [B], but `linear` [B, d] and `square` [B, d, d].
    """

    middle: LongArray
    linear: LongArray
    square: LongArray
    below: LongArray
    above: LongArray
    low: LongArray
    high: LongArray


class PlainBound:
    """Bounds the score over boxes of the free inputs; score: mu / sqrt(1 + Sigma) (probit), else the probability.

    Args:
        model: the stored classifier.
        centre: [D] the point; inputs that are not free stay there.
        free: [d] indices of the free inputs.

    Raises:
        ValueError: if the model is not one this bound knows, or its numbers are too large.
    """

    def __init__(self, model: PlainModel, centre: FloatArray, free: npt.NDArray[np.int64]) -> None:
        if model.kernel not in CURVATURE or model.link not in ("probit", "logistic"):
            raise ValueError(f"no plain bound for kernel {model.kernel}, link {model.link}")
        self.model, self.s, self.curvature = model, Long(model.variance), Long(CURVATURE[model.kernel])
        self.X, self.weights = model.X[:, free], model.weights
        self.scale = model.lengthscales[free].astype(Long)
        held = np.delete(np.arange(model.X.shape[1]), free)
        moved = (model.X[:, held].astype(Long) - centre[held]) / model.lengthscales[held].astype(Long)
        fixed = np.sum(moved**2, axis=1)
        root, alpha = np.sqrt(self.s) * model.root.astype(Long), model.alpha.astype(Long)
        points, scale, wider = model.X, model.lengthscales, np.ones(len(alpha), dtype=Long)
        if model.kernel == "squared_exponential":  # it factors: fold the fixed inputs into the weights
            fold, wider = np.exp(-fixed / 2), 1 + fixed
            alpha, root, fixed = alpha * fold, root * fold, np.zeros_like(fixed)
            points, scale = points[:, free], scale[free]
        self.operations = len(alpha) + len(root) + 16 * model.X.shape[1] + 64
        with np.errstate(all="ignore"):  # overflow ends in inf or NaN, which are refused
            self._prepare(alpha, root, fixed, wider, np.float64, points, scale)
            if len(alpha) <= EXTENDED and self._rounding_is_felt():
                self._prepare(alpha, root, fixed, wider, Long, points, scale)

    def _prepare(
        self,
        alpha: LongArray,
        root: LongArray,
        fixed: LongArray,
        wider: LongArray,
        work: Any,
        points: FloatArray,
        scale: FloatArray,
    ) -> None:
        """Set what depends on the working precision: alpha, F, the mean's norm, G's range, and their rounding.

        Args:
            alpha: [N], folded.
            root: [r, N], times sqrt(s) and folded.
            fixed: [N] squared distance in the inputs that are not free and not folded.
            wider: [N] relative rounding of the folding.
            work: type of the floats that are computed with.
            points: [N, *] inputs of the kernel between data.
            scale: [*] their lengthscales.
        """
        self.work, self.unit = work, self.operations * float(np.finfo(work).eps)
        self.alpha, self.Z, self.fixed = alpha.astype(work), root.astype(work), fixed.astype(work)
        prior = gram(points.astype(work), scale.astype(work), self.model.kernel)
        lengths, size = np.sum(np.abs(root) * wider, axis=1), (np.abs(alpha) * wider).astype(work)
        self.g, self.nu = _operator_range(prior, self.Z, self.weights, self.unit * float(np.sum(lengths**2)))
        self.norm_slack = 4 * self.unit * Long(size @ prior @ size)
        self.norm2 = max(Long(self.alpha @ prior @ self.alpha), Long(0)) + self.norm_slack
        self.slack_mean = self.unit * Long(np.sum(size))
        self.slack_root = self.unit * np.sqrt(np.sum(np.abs(self.weights) * lengths**2))
        if not np.all(np.isfinite([self.g, self.nu, self.norm2, self.slack_root, self.slack_mean])):
            raise ValueError("the model's numbers are too large")

    def _rounding_is_felt(self) -> bool:
        felt = self.s * max(self.slack_mean, self.slack_root, self.nu) > FELT
        return bool(felt or self.norm_slack > FELT * self.norm2)

    def bounds(self, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score over boxes [B, d]; NaN gives no bound."""
        bottom, top = np.empty(len(lo)), np.empty(len(lo))
        boxes = max(1, BLOCK // (len(self.alpha) * (1 + len(self.scale))))
        for start in range(0, len(lo), boxes):
            part = slice(start, start + boxes)
            bottom[part], top[part] = self._bounds(lo[part], hi[part])
        return bottom, top

    def _bounds(self, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
        c = 0.5 * lo + 0.5 * hi
        r = np.maximum(np.maximum(hi - c.astype(Long), c.astype(Long) - lo), 0) / self.scale * (1 + 8 * UNIT)
        with np.errstate(all="ignore"):  # overflow ends in inf or NaN, which say nothing
            low, high = self._score_range(*self._moments(c, r), r)
            low, high = low - OUTWARD * (1 + np.abs(low)), high + OUTWARD * (1 + np.abs(high))
            known = low <= high
            return (
                np.where(known, low, -np.inf).astype(np.float64),
                np.where(known, high, np.inf).astype(np.float64),
            )

    def probability(self, score: float) -> tuple[float, float]:
        """Return the class probability of a score, rounded down and up."""
        return class_probability(self.model, score)

    def _moments(self, c: FloatArray, r: LongArray) -> tuple[_Range, _Range]:
        """Return mean and variance over boxes around c [B, d], in units of s; the variance is that of G + nu."""
        boxes, inputs = c.shape
        D = (self.X.astype(self.work)[:, None, :] - c) / self.scale.astype(self.work)
        distance = np.sqrt(np.einsum("nbd,nbd->nb", D, D) + self.fixed[:, None])
        V = np.empty((len(D), boxes, 1 + inputs), dtype=self.work)
        V[:, :, 0] = kappa(self.model.kernel, distance)
        np.multiply(D, psi(self.model.kernel, distance)[:, :, None], out=V[:, :, 1:])
        a = (self.alpha @ V.reshape(len(V), -1)).reshape(boxes, -1).astype(Long)
        W = (self.Z @ V.reshape(len(V), -1)).reshape(-1, boxes, 1 + inputs)
        W = np.ascontiguousarray(W.transpose(1, 2, 0))
        G = np.matmul(W * self.weights.astype(self.work), W.transpose(0, 2, 1)).astype(Long)
        G += (1 + self.nu) * np.eye(1 + inputs, dtype=Long)
        mass = np.max((W**2) @ np.abs(self.weights).astype(self.work), axis=1)
        rho = np.sqrt(np.sum(r**2, axis=1)) * (1 + (8 + inputs) * UNIT)
        tail = np.sqrt(tail_bound(self.model.kernel, rho))
        far = np.sqrt(np.maximum(2 * (1 - kappa(self.model.kernel, rho)) + 16 * UNIT, 0))
        return self._mean(a, r, rho, tail, far), self._variance(G, self._gram_slack(mass), r, rho, tail, far)

    def _gram_slack(self, mass: Any) -> LongArray:
        """Bound the rounding of G's entries, [B]: |c|-weighted products of rows with errors `slack_root`."""
        size = np.sqrt(mass.astype(Long)) + self.slack_root
        return np.asarray(2 * size * self.slack_root + self.slack_root**2 + self.unit * (size**2 + 1))

    def _mean(self, a: LongArray, r: LongArray, rho: LongArray, tail: LongArray, far: LongArray) -> _Range:
        kernel, root, lam = self.model.kernel, np.sqrt(self.curvature), self.curvature
        known = np.sum(np.maximum(np.abs(a) - self.slack_mean, 0) ** 2, axis=1)
        rest = np.sqrt(np.maximum(self.norm2 - known, 0)) * tail
        linear, square = root * a[:, 1:], -lam * a[:, 0, None, None] / 2 * np.eye(r.shape[1], dtype=Long)
        bend = np.maximum(kappa(kernel, rho) - 1 + lam * rho**2 / 2, 0) + 8 * UNIT * (1 + rho**2)
        length = np.sum(np.abs(a[:, 1:]) * r, axis=1)
        flat = (root - psi(kernel, rho) + 8 * UNIT) * length
        rounding = 4 * self.slack_mean * (1 + root * np.sum(r, axis=1) + lam * rho**2)
        below = flat + rest + rounding + np.maximum(-a[:, 0], 0) * bend
        above = flat + rest + rounding + np.maximum(a[:, 0], 0) * bend
        reach = np.sqrt(self.norm2) * far + rounding
        low, high = quadratic_range(linear, square, r)
        return _Range(
            a[:, 0], linear, square, below, above,
            a[:, 0] + np.maximum(low - below, -reach), a[:, 0] + np.minimum(high + above, reach),
        )  # fmt: skip

    def _variance(
        self, G: LongArray, slack: LongArray, r: LongArray, rho: LongArray, tail: LongArray, far: LongArray
    ) -> _Range:
        kernel, lam, g = self.model.kernel, self.curvature, self.g + self.nu
        root, value, slope = np.sqrt(lam), kappa(kernel, rho), psi(kernel, rho)
        g0, b, block = G[:, 0, 0], 2 * G[:, 0, 1:], G[:, 1:, 1:]
        total = np.sum(r, axis=1)
        rounding = 4 * slack * (1 + (root + lam) * total) ** 2 + 16 * UNIT * (1 + rho**2)
        linear, square = root * b, lam * (block - g0[:, None, None] * np.eye(r.shape[1], dtype=Long))
        length = (root - value * slope) * np.sum(np.abs(b) * r, axis=1)
        spread = np.einsum("bi,bij,bj->b", r, np.abs(block), r)
        curved = (lam - slope**2) * np.minimum(spread, g * rho**2)
        below = length + curved + rounding
        above = np.maximum(g0, 0) * np.maximum(lam * rho**2 - 1 + value**2, 0) + length + rounding
        least, most = quadratic_range(linear, square, r)
        lower, upper = np.maximum(g0 + least - below, 0), np.maximum(g0 + most + above, 0)
        rest = np.sqrt(g) * tail
        nearest, farthest = (np.sqrt(np.maximum(g0 + sign * rounding, 0)) for sign in (-1, 1))
        far = np.sqrt(g) * far
        low = np.maximum(np.maximum(np.sqrt(lower) - rest, nearest - far), 0) ** 2
        high = np.minimum(np.minimum(np.sqrt(upper) + rest, farthest + far), np.sqrt(g)) ** 2
        mixed = 2 * np.sqrt(upper) * rest
        return _Range(g0, linear, square, below + mixed, above + mixed + rest**2, low, high)

    def _score_range(self, mean: _Range, variance: _Range, r: LongArray) -> tuple[LongArray, LongArray]:
        """Return the score's range: corners of (mean, variance), and the joint quadratic model."""
        s, nu = self.s, self.nu
        mu = s * mean.low, s * mean.high
        sigma = np.maximum(s * (variance.low - nu), 0), np.maximum(s * (variance.high - nu), 0)
        low = self._value(mu[0], np.where(mu[0] >= 0, sigma[1], sigma[0]))
        high = self._value(mu[1], np.where(mu[1] >= 0, sigma[0], sigma[1]))
        mu0, sigma0 = s * mean.middle, np.maximum(s * (variance.middle - nu), 0)
        value, by_mean, by_variance = self._score(mu0, sigma0)
        change = (
            np.maximum(np.maximum(mu[1] - mu0, mu0 - mu[0]), 0),
            np.maximum(np.maximum(sigma[1] - sigma0, sigma0 - sigma[0]), 0),
        )
        linear = s * (by_mean[:, None] * mean.linear + by_variance[:, None] * variance.linear)
        square = s * (by_mean[:, None, None] * mean.square + by_variance[:, None, None] * variance.square)
        # both the middle and any other variance may have been lifted to zero, by nu at most
        more, less = (
            s * (variance.above + nu),
            s * (variance.below + nu) + sigma0 - s * (variance.middle - nu),
        )
        rise, fall = np.where(by_variance >= 0, more, less), np.where(by_variance >= 0, less, more)
        least, most = quadratic_range(linear, square, r)
        error = self._remainder(
            change, np.minimum(sigma[0], sigma0), np.maximum(np.abs(mu[0]), np.abs(mu[1]))
        )
        outer = Long(0)
        if self.model.link == "logistic":
            outer = Long(QUADRATURE)
            error = error + outer + (DERIVATIVE * by_mean + FADED) * (change[0] + change[1])
        joint_low = value + least - s * by_mean * mean.below - np.abs(by_variance) * fall - error
        joint_high = value + most + s * by_mean * mean.above + np.abs(by_variance) * rise + error
        return np.maximum(low - outer, joint_low), np.minimum(high + outer, joint_high)

    def _value(self, mean: LongArray, variance: LongArray) -> LongArray:
        """Return the score [B]."""
        if self.model.link == "logistic":
            return logistic_value(mean, variance).astype(Long)
        return np.asarray(mean / np.sqrt(1 + variance))

    def _score(self, mean: LongArray, variance: LongArray) -> tuple[Any, Any, Any]:
        """Return the score [B] and its derivatives in mean and variance."""
        if self.model.link == "logistic":
            value, by_mean, by_variance = logistic_moments(mean, variance)
            return value.astype(Long), by_mean.astype(Long), by_variance.astype(Long)
        width = np.sqrt(1 + variance)
        return mean / width, 1 / width, -mean / (2 * width**3)

    def _remainder(self, change: tuple[LongArray, LongArray], least: LongArray, largest: LongArray) -> Any:
        """Bound the score's second-order remainder for these changes, variances >= least, |means| <= largest."""
        if self.model.link == "logistic":
            return logistic_remainder(*change)
        d_mean, d_variance = change
        first = d_mean * d_variance / (2 * (1 + least) ** Long(1.5))
        return first + 3 * d_variance**2 * largest / (8 * (1 + least) ** Long(2.5))


def class_probability(model: PlainModel, score: float) -> tuple[float, float]:
    """Return the class probability of a score, rounded down and up."""
    if model.link == "logistic":
        clipped = min(max(score, 0.0), 1.0)
        return clipped, clipped
    p = model.squeeze + (1 - 2 * model.squeeze) * float(ndtr(score))
    return p * (1 - OUTWARD), min(1.0, p * (1 + OUTWARD) + SMALLEST)


def quadratic_range(linear: LongArray, square: LongArray, r: LongArray) -> tuple[LongArray, LongArray]:
    """Return bounds [B] of b'delta + delta'M delta over |delta_j| <= r_j, with |M_jk d_j d_k| split by AM-GM.

    Args:
        linear: b, [B, d].
        square: M, [B, d, d].
        r: [B, d].
    """
    low = _quadratic_minimum(linear, square, r)
    return low, -_quadratic_minimum(-linear, -square, r)


def _quadratic_minimum(linear: LongArray, square: LongArray, r: LongArray) -> LongArray:
    diagonal = np.einsum("bjj->bj", square)
    across = np.einsum("bjk,bk->bj", np.abs(square), r) - np.abs(diagonal) * r
    curve, slope = diagonal * r**2 - across * r, np.abs(linear) * r
    inside = (curve > 0) & (slope <= 2 * curve)
    least = np.where(inside, -(slope**2) / np.where(inside, 4 * curve, 1), curve - slope)
    size = slope + (across + np.abs(diagonal) * r) * r
    return np.asarray(np.sum(least, axis=1) - (64 + 8 * r.shape[1]) * UNIT * np.sum(size, axis=1))


def _operator_range(prior: Any, root: Any, weights: FloatArray, rounding: float) -> tuple[Any, Any]:
    """Return (g, nu) with -nu <= G <= g for G = I + sum_k c_k z_k z_k*, from the Gram matrix M of the z_k.

    G is the identity but on the span of the z_k, where its eigenvalues are those of I + M^1/2 diag(c) M^1/2.
    `rounding` bounds the spectral norm of M's error.
    """
    M = np.asarray(root @ prior @ root.T, dtype=np.float64)
    if not np.all(np.isfinite(M)):
        raise ValueError("the model's numbers are too large")
    M = (M + M.T) / 2
    largest, unit = max(1.0, float(np.abs(weights).max(initial=0.0))), 64 * (len(weights) + 1) * 2.0**-53
    if len(np.unique(weights)) <= 1:
        spectrum = np.linalg.eigvalsh(M)
        error = unit * max(1.0, float(np.abs(spectrum).max(initial=0.0))) + 4 * rounding
        spectrum = spectrum * weights
    else:
        values, vectors = np.linalg.eigh(M)
        size = max(1.0, float(np.abs(values).max()))
        half = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        spectrum = np.linalg.eigvalsh((half * weights) @ half)
        error = unit * size + 4 * rounding
        error = 2 * (size * error) ** 0.5 + error  # a square root may move by the root of what M moves
    nu = max(0.0, -(1 + float(spectrum.min(initial=0.0)))) + largest * error
    return Long(max(1.0, 1 + float(spectrum.max(initial=0.0))) + largest * error), Long(nu)
