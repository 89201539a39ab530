"""The links of the plain bound: class probability of a Gaussian latent value, its derivatives and their bounds.

The logistic function is the distribution function of a density sigma' around 0. So for f ~ N(m, v) E sigma(f) = int
sigma'(l) Phi((m - l) / sqrt(v)) dl. For v that is not small, the trapezoidal rule converges like exp(-2 pi^2 / h). For
small v it is applied to the Gaussian density instead.

Equation: derived, class probability from mean and variance
Equation: derived, level function
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import expit, log_ndtr, logit, ndtr, ndtri

from gpsuite.arrays import FloatArray

QUADRATURE = 1e-12  # absolute rounding of an expectation: some hundred terms in double precision
CELLS = 24
LARGEST_MEAN = 1e100
WIDE = 3.0
LOGISTIC = (0.0962251, 0.125, 0.1276841)  # largest |sigma''|, |sigma'''|, |sigma''''|, rounded up

_NARROW_STEP, _NARROW_REACH = 0.1, 24.0
_WIDE_STEP, _WIDE_REACH = 0.25, 100.0
_BLOCK = 1 << 11
_FINEST, _MOST_NODES = 0.15, 1 << 18  # step in f: the squeezed probit's logarithm is singular at a distance of 0.9


def logistic_value(mean: Any, variance: Any) -> FloatArray:
    """Return E sigma(f) [B], the first of `logistic_moments`."""
    return np.asarray(_moments(mean, variance, 1)[0])


def logistic_moments(mean: Any, variance: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E sigma(f) and its derivatives in mean and variance, E sigma'(f) and E sigma''(f) / 2.

    Args:
        mean: [B].
        variance: [B], >= 0.
    """
    value, first, second = _moments(mean, variance, 3)
    return value, first, second / 2


def _moments(mean: Any, variance: Any, count: int) -> FloatArray:
    """Return the first `count` of E sigma, E sigma', E sigma'', [count, B]."""
    m, deviation = np.asarray(mean, dtype=np.float64), np.sqrt(np.asarray(variance, dtype=np.float64))
    found = np.empty((count, len(m)))
    for start in range(0, len(m), _BLOCK):
        part = np.arange(start, min(start + _BLOCK, len(m)))
        wide = deviation[part] > WIDE
        for rule, which in ((_narrow, part[~wide]), (_wide, part[wide])):
            if len(which):
                found[:, which] = rule(m[which], deviation[which], count)
    return found


def _narrow(mean: FloatArray, deviation: FloatArray, count: int) -> FloatArray:
    nodes = _nodes(_NARROW_STEP, _NARROW_REACH)
    weights = _NARROW_STEP * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    f = mean[:, None] + deviation[:, None] * nodes
    p = expit(f)
    if count == 1:
        return np.asarray(p @ weights)[None]
    q = expit(-f)
    slope = p * q
    return np.stack([p @ weights, slope @ weights, (slope * (q - p)) @ weights])


def _wide(mean: FloatArray, deviation: FloatArray, count: int) -> FloatArray:
    nodes = _nodes(_WIDE_STEP, _WIDE_REACH)
    weights = _WIDE_STEP * expit(nodes) * expit(-nodes)
    z = (mean[:, None] - nodes) / deviation[:, None]
    value = ndtr(z) @ weights
    if count == 1:
        return np.asarray(value)[None]
    density = np.exp(-(z**2) / 2) / (np.sqrt(2 * np.pi) * deviation[:, None])
    return np.stack([value, density @ weights, (-z * density) @ weights / deviation])


def _nodes(step: float, reach: float) -> FloatArray:
    count = round(reach / step)
    return step * np.arange(-count, count + 1)


def expected_derivatives(
    link: str, squeeze: float, y: FloatArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return E d log p(y|f) / df and -E d2 log p(y|f) / df2 for f ~ N(mean, variance), [N] each.

    The trapezoidal rule converges like exp(-2 pi distance / step) for functions that are analytic at that distance from
    the real line. The result is NaN for marginals so wide that they need more than `_MOST_NODES` nodes.
    """
    deviation = np.sqrt(variance)
    step = min(0.25, _FINEST / float(np.max(deviation)))
    first, second = np.zeros(len(y)), np.zeros(len(y))
    if not 24 / step <= _MOST_NODES:
        return first * np.nan, second * np.nan
    nodes = _nodes(step, 12.0)
    weights = step * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    for start in range(0, len(nodes), _BLOCK):
        part = slice(start, start + _BLOCK)
        t = y[:, None] * (mean[:, None] + deviation[:, None] * nodes[part])
        if link == "logistic":
            slope, bend = expit(-t), expit(t) * expit(-t)
        else:
            log_p = log_ndtr(t) if squeeze == 0 else np.log(squeeze + (1 - 2 * squeeze) * ndtr(t))
            slope = (1 - 2 * squeeze) * np.exp(-(t**2) / 2 - log_p) / np.sqrt(2 * np.pi)
            bend = slope * (slope + t)
        first += slope @ weights[part]
        second += bend @ weights[part]
    return y * first, second


def largest_on_line(G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return an upper bound of E sigma(f), f ~ N(G + slope v, v), over v in [low, high], [B].

    It is evaluated at the ends of `CELLS` cells. Between them the second derivative along the line gives the bound. By
    the heat equation this is slope^2 E sigma_2 + slope E sigma_3 + E sigma_4 / 4 in the derivatives sigma_k.
    """
    share = np.linspace(0, 1, CELLS + 1)
    # cells of equal width in sqrt(1 + v): the probability changes with the deviation
    ends = [np.sqrt(1 + each)[:, None] for each in (low, high)]
    v = np.clip((ends[0] + share * (ends[1] - ends[0])) ** 2 - 1, low[:, None], high[:, None])
    v[:, 0], v[:, -1] = low, high
    m = np.clip(G[:, None] + slope[:, None] * v, -LARGEST_MEAN, LARGEST_MEAN)
    sound = np.isfinite(m) & np.isfinite(v)
    p = logistic_value(np.where(sound, m, 0.0).ravel(), np.where(sound, v, 0.0).ravel()).reshape(v.shape)
    second, third, fourth = LOGISTIC
    bend = second * slope**2 + third * np.abs(slope) + fourth / 4
    between = np.max(np.diff(v, axis=1), axis=1) ** 2 / 8 * bend * (1 + 1e-12)
    # rounding of the argument, times the largest derivative 1/4
    rounding = 1e-15 * (np.abs(G) + np.abs(slope) * high)
    found = np.minimum(p.max(axis=1) + between + rounding + QUADRATURE, 1.0)
    return np.where(sound.all(axis=1), found, 1.0)


# The scores of the plain bound: functions of (mean, variance) for a class probability or a predictive quantile.
#
# A score is bounded from above through a level T. Let k(v) be the mean that has the level T at variance v. Where
# mean - k(variance) <= 0, the score is at most T. `sign` -1 bounds minus a score, by the mirrored mean.


OUTWARD = 1e-12  # relative rounding of a score and a probability
SMALLEST = 1e-300  # below it the normal distribution function has no relative accuracy
FARTHEST = 40.0  # the normal distribution function is 0 or 1 there
SHAPE = {"probit": 1.0, "logistic": np.pi / 8}  # the logistic is like a probit of an argument of this slope


class PlainScore(Protocol):
    """Interface of a score that the plain bound uses. Arrays are [B].

    Attributes:
        limits: lower and upper limit of every claim.
    """

    limits: ClassVar[tuple[float, float]]

    def between(
        self, low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return bounds of the score for means in [low, high] and variances in [least, most]."""

    def corner(self, top: FloatArray, low: FloatArray, high: FloatArray, sign: int) -> FloatArray:
        """Return the largest score of sign times means up to `top` and variances in [low, high]."""

    def slope(
        self, threshold: FloatArray, sign: int, low: FloatArray, high: FloatArray, centre: FloatArray
    ) -> FloatArray:
        """Return the slope of a line in place of the level k over variances in [low, high]."""

    def on_line(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray, sign: int) -> FloatArray:
        """Return the largest score of (G + slope v, v) over v in [low, high]."""

    def own(self, best: FloatArray, sign: int) -> FloatArray:
        """Return the bound of the score itself from an upper bound for the sign, rounded outward."""

    def claimed(self, score: float) -> tuple[float, float]:
        """Return the claimed value of a score, rounded down and up."""

    def score_of(self, claim: float) -> float:
        """Return the approximate score of a claim. It is only used to decide where to stop."""


@dataclass(frozen=True)
class LinkScore:
    """The score of a class probability: mean / sqrt(1 + variance) for the probit, otherwise the probability.

    Attributes:
        link: "probit" or "logistic".
        squeeze: squeeze of the probit.

    Raises:
        ValueError: for another link.
    """

    link: str
    squeeze: float
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.link not in SHAPE:
            raise ValueError(f"no plain bound for link {self.link}")

    @property
    def _quadrature(self) -> float:
        return QUADRATURE if self.link == "logistic" else 0.0

    def _value(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        if self.link == "logistic":
            finite = np.isfinite(mean) & np.isfinite(variance)
            value = logistic_value(np.where(finite, mean, 0.0), np.where(finite, variance, 0.0))
            return np.where(finite, value, np.nan)
        return np.asarray(mean / np.sqrt(1 + variance))

    def between(
        self, low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        bottom = self._value(low, np.where(low >= 0, most, least)) - self._quadrature
        return bottom, self._value(high, np.where(high >= 0, least, most)) + self._quadrature

    def corner(self, top: FloatArray, low: FloatArray, high: FloatArray, sign: int) -> FloatArray:
        return np.asarray(self._value(top, np.where(top >= 0, low, high)) + self._quadrature)

    def slope(
        self, threshold: FloatArray, sign: int, low: FloatArray, high: FloatArray, centre: FloatArray
    ) -> FloatArray:
        """Return the slope of the level T sqrt(1 + a v): its chord if T >= 0, otherwise its central tangent, [B]."""
        a = SHAPE[self.link]
        T = sign * threshold
        if self.link == "logistic":
            T = sign * logit(np.clip(threshold, 1e-9, 1 - 1e-9))
        T = np.where(np.isnan(T), 0.0, np.clip(T, -FARTHEST, FARTHEST))
        middle = np.nan_to_num(np.clip(centre, low, high), posinf=0.0)
        root = np.sqrt(1 + a * middle)
        slope = 0.5 * a * T / root
        if self.link == "logistic":  # the slope of the logistic, not that of the similar probit
            _, by_mean, by_variance = logistic_moments(T * root, middle)
            slope = -by_variance / np.maximum(by_mean, SMALLEST)
        slope = np.where(T >= 0, slope * 2 * root / (np.sqrt(1 + a * low) + np.sqrt(1 + a * high)), slope)
        return np.where(np.isfinite(slope), slope, 0.0)

    def on_line(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray, sign: int) -> FloatArray:
        """Return the largest score of (G + slope v, v) over v in [low, high], [B]."""
        if self.link == "logistic":
            return largest_on_line(G, slope, low, high)
        ends = np.maximum(*((G + slope * v) / np.sqrt(1 + v) for v in (low, high)))
        # the derivative is zero at 1 + v = (G - slope)/slope, a maximum if slope < 0
        turn = (G - slope) / np.where(slope < 0, slope, -1)
        inside = (slope < 0) & (turn > 1 + low) & (turn < 1 + high)
        peak = -2 * np.sqrt(np.where(inside, (G - slope) * slope, 0))
        size = np.abs(G) + np.abs(slope) * (1 + high)
        return np.asarray(np.where(inside, peak, ends) + OUTWARD * size / np.sqrt(1 + low))

    def own(self, best: FloatArray, sign: int) -> FloatArray:
        """Return the bound of the score from an upper bound for (sign mean, variance), rounded outward."""
        outward = best + OUTWARD * (1 + np.abs(best))
        if sign > 0:
            return outward
        return 1.0 - outward - OUTWARD if self.link == "logistic" else -outward

    def claimed(self, score: float) -> tuple[float, float]:
        if self.link == "logistic":
            clipped = min(max(score, 0.0), 1.0)
            return clipped, clipped
        p = self.squeeze + (1 - 2 * self.squeeze) * float(ndtr(score))
        return p * (1 - OUTWARD), min(1.0, p * (1 + OUTWARD) + SMALLEST)

    def score_of(self, claim: float) -> float:
        if self.link != "probit":
            return claim
        return float(ndtri(np.clip((claim - self.squeeze) / (1 - 2 * self.squeeze), 0.0, 1.0)))


@dataclass(frozen=True)
class QuantileScore:
    """A predictive quantile: mean + z sqrt(variance + noise). It is both the score and the claim.

    Attributes:
        z: the standard normal's quantile.
        noise: variance of the observation noise, above 0.
    """

    z: float
    noise: float
    limits: ClassVar[tuple[float, float]] = (-math.inf, math.inf)

    def _value(self, mean: FloatArray, variance: FloatArray, sign: int) -> FloatArray:
        """Return sign times the quantile for sign times the mean, rounded up."""
        width = np.sqrt(variance + self.noise)
        size = np.abs(mean) + abs(self.z) * width  # cancelling terms are rounded too
        return np.asarray(mean + sign * self.z * width + OUTWARD * size)

    def between(
        self, low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return -self.corner(-low, least, most, -1), self.corner(high, least, most, 1)

    def corner(self, top: FloatArray, low: FloatArray, high: FloatArray, sign: int) -> FloatArray:
        return self._value(top, high if sign * self.z >= 0 else low, sign)

    def slope(
        self, threshold: FloatArray, sign: int, low: FloatArray, high: FloatArray, centre: FloatArray
    ) -> FloatArray:
        """Return the slope of the level -z sqrt(v + noise): its chord if z < 0, otherwise its central tangent, [B]."""
        z = sign * self.z
        chord = 1.0 / (np.sqrt(low + self.noise) + np.sqrt(high + self.noise))
        middle = np.nan_to_num(np.clip(centre, low, high), posinf=0.0)
        slope = -z * (chord if z < 0 else 0.5 / np.sqrt(middle + self.noise))
        return np.where(np.isfinite(slope), slope, 0.0)

    def on_line(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray, sign: int) -> FloatArray:
        z = sign * self.z
        ends = np.maximum(*(self._value(G + slope * v, v, sign) for v in (low, high)))
        # the derivative is zero at v + noise = (z / (2 slope))^2, a maximum if z > 0 and slope < 0
        steep = np.where(slope < 0, slope, -1.0)
        turn = (0.5 * z / steep) ** 2
        inside = (z > 0) & (slope < 0) & (turn > low + self.noise) & (turn < high + self.noise)
        peak = G - steep * self.noise - 0.25 * z * z / steep
        size = np.abs(G) + np.abs(slope) * (high + self.noise) + abs(z) * np.sqrt(high + self.noise)
        return np.asarray(np.where(inside, peak, ends) + OUTWARD * size)

    def own(self, best: FloatArray, sign: int) -> FloatArray:
        return np.asarray(sign * (best + OUTWARD * (1 + np.abs(best))), dtype=np.float64)

    def claimed(self, score: float) -> tuple[float, float]:
        return score, score

    def score_of(self, claim: float) -> float:
        return claim
