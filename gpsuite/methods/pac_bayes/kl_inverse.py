"""The binary relative entropy and its two inverses, with derivatives.

Equation: Reeb et al. 2018, Eq. (3), App. A
Equation: derived, inverse kl and its derivatives
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import rel_entr

from gpsuite.arrays import FloatArray

# Below this logit distance kl(d) is summed as a series: the closed form loses about 2 eps / d of its accuracy.
_SERIES_BELOW = 1e-2
# Above this logit distance exp(d) nears overflow. The form in exp(-d) holds for every q.
_EXP_LIMIT = 700.0
# c is clipped to this range. Below it kl underflows and p does not depend on c. Above it 1 - p is zero in float64.
_LEVEL_RANGE = (1e-300, 1e5)
# Beyond this logit distance every result equals that at infinity. Below this 1 - q the slope of kl would underflow.
_MAX_DISTANCE = 1e4
_MIN_COMPLEMENT = 1e-300
# Smaller risks count as this one. That is safe: its inverse is not smaller. With them exp(-d) would be subnormal, of
# few digits.
_LEAST_RISK = 1e-300
# Newton is monotone and quadratic. The tightest starting points need about 10 steps.
_MAX_STEPS = 100


@dataclass(frozen=True)
class KLInverse:
    """An inverse p of kl(q||p) = c and its partial derivatives, arrays of one shape.

    Attributes:
        p: the inverse: the largest (upper) or smallest (lower) p with kl(q||p) <= c.
        one_minus_p: 1 - p without cancellation.
        dp_dq: derivative in q, infinite at q = 0 (lower: q = 1) for 0 < c < inf.
        dp_dc: derivative in c, infinite (lower: minus infinity) at c = 0 for 0 < q < 1.
    """

    p: FloatArray
    one_minus_p: FloatArray
    dp_dq: FloatArray
    dp_dc: FloatArray


def binary_kl(q: npt.ArrayLike, p: npt.ArrayLike) -> FloatArray:
    """Return kl(q||p) = q ln(q/p) + (1-q) ln((1-q)/(1-p)) in nats, elementwise with broadcasting.

    Infinite if p excludes an outcome that q allows. Absolute error about 1e-16.

    Raises:
        ValueError: if q or p is NaN or outside [0, 1].
    """
    q_, p_ = _probability("q", q), _probability("p", p)
    value = rel_entr(q_, p_) + rel_entr(1.0 - q_, 1.0 - p_)
    return np.asarray(np.maximum(value, 0.0), dtype=np.float64)


def kl_inverse(q: npt.ArrayLike, c: npt.ArrayLike) -> KLInverse:
    """Return the upper inverse of the binary relative entropy in its second argument.

    It uses Newton's method in d = logit p - logit q, where kl is convex with slope p - q. From an upper bound of the
    root the iterates fall monotonically. Edges are exact: p = q at c = 0, p = 1 - exp(-c) at q = 0, p = 1 at q = 1 or
    c = inf. Derivatives: dp/dc = p(1-p)/(p-q), dp/dq = d dp/dc.

    Raises:
        ValueError: if q is NaN or outside [0, 1], or c is NaN or negative.
    """
    risk = _probability("q", q)
    return _inverse(risk, 1.0 - risk, c)


def kl_inverse_lower(q: npt.ArrayLike, c: npt.ArrayLike) -> KLInverse:
    """Return the lower inverse min{p in [0, q] : kl(q||p) <= c}, which is 1 - kl_inverse(1 - q, c).

    The symmetry is used with 1 - q and q kept separate, so a small q keeps its digits. Edges are exact: p = q at
    c = 0, p = 0 at q = 0 or c = inf, p = exp(-c) at q = 1.

    Raises:
        ValueError: if q is NaN or outside [0, 1], or c is NaN or negative.
    """
    risk = _probability("q", q)
    mirrored = _inverse(1.0 - risk, risk, c)
    return KLInverse(mirrored.one_minus_p, mirrored.p, mirrored.dp_dq, -mirrored.dp_dc)


def _inverse(q: FloatArray, one_minus_q: FloatArray, c: npt.ArrayLike) -> KLInverse:
    """Return the upper inverse at q. The smaller of q and 1 - q must be exact."""
    level = np.asarray(c, dtype=np.float64)
    if not np.all(level >= 0.0):
        raise ValueError(f"c must be >= 0 (infinity allowed) and not NaN, got {c!r}")
    q, one_minus_q, level = (np.array(a) for a in np.broadcast_arrays(q, one_minus_q, level))
    result = _edges(q, one_minus_q, level)
    inner = (q > 0.0) & (one_minus_q > 0.0) & (level > 0.0) & np.isfinite(level)
    if np.any(inner):
        q_ = np.maximum(q[inner], _LEAST_RISK)
        r_, c_ = one_minus_q[inner], np.clip(level[inner], *_LEVEL_RANGE)
        distance = _newton(q_, np.maximum(r_, _MIN_COMPLEMENT), c_)
        for target, values in zip(
            (result.p, result.one_minus_p, result.dp_dq, result.dp_dc), _from_logit(q_, r_, distance), strict=True
        ):
            target[inner] = values
    return result


def _probability(name: str, value: npt.ArrayLike) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if not np.all((array >= 0.0) & (array <= 1.0)):
        raise ValueError(f"{name} must lie in [0, 1] and not be NaN, got {value!r}")
    return array


def _edges(q: FloatArray, one_minus_q: FloatArray, c: FloatArray) -> KLInverse:
    """Return the exact values where q is 0 or 1 or c is 0 or infinite, and placeholders elsewhere."""
    cases = [(one_minus_q == 0.0) | np.isinf(c), q == 0.0]
    decay = np.exp(-c)
    return KLInverse(
        p=np.select(cases, [np.ones_like(q), -np.expm1(-c)], q),
        one_minus_p=np.select(cases, [np.zeros_like(q), decay], one_minus_q),
        dp_dq=np.select([cases[0], (q == 0.0) & (c > 0.0)], [np.zeros_like(q), np.full_like(q, np.inf)], 1.0),
        dp_dc=np.select(cases, [np.zeros_like(q), decay], np.inf),
    )


def _newton(q: FloatArray, r: FloatArray, c: FloatArray) -> FloatArray:
    """Return the d > 0 with kl(q || expit(logit q + d)) = c for 0 < q < 1, r = 1 - q and 0 < c < inf."""
    d = _upper_bound(q, r, c)
    for _ in range(_MAX_STEPS):
        value, slope = _kl_of_logit(q, r, d)
        moved = np.minimum(d - (value - c) / slope, _MAX_DISTANCE)
        step, d = d - moved, moved
        if np.all(np.abs(step) <= 4e-16 * d):
            break
    return d


def _upper_bound(q: FloatArray, r: FloatArray, c: FloatArray) -> FloatArray:
    """Return an upper bound of the root d, tight for small c and for large c.

    kl >= ln q + (1-q) d gives the bound for large c. For p - q: kl is at least 2(p-q)^2, (p-q)^2/(2p) and
    (p-q)^2/(2(1-q)). The smallest of the three bounds on p - q is turned into a logit distance.
    """
    large = np.minimum((c - np.log(q)) / r, _MAX_DISTANCE)
    product = 2.0 * r * c
    split = np.sqrt(2.0 * r) * np.sqrt(c)  # if the product underflows
    geometric = np.where(product > _MIN_COMPLEMENT, np.sqrt(product), split)
    gap = np.minimum(np.sqrt(c / 2.0), geometric)
    gap = np.minimum(gap, c + np.sqrt(c) * np.sqrt(c + 2.0 * q))
    inside = gap < 0.99 * r
    safe = np.where(inside, gap, 0.0)
    with np.errstate(over="ignore"):  # a subnormal q makes this infinite: then the other bound is taken
        small = np.log1p(safe / q) - np.log1p(-safe / r)
    return np.where(inside, np.minimum(small, large), large)


def _kl_of_logit(q: FloatArray, r: FloatArray, d: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return kl(d) and its slope p - q, each in the form that keeps its digits."""
    near = np.minimum(d, 1.0)  # keeps the branches that are not taken finite
    v, g = q * r, r - q
    # kl(d) is the cumulant generating function of a Bernoulli(q) variable less its mean: kappa_k d^k / k!, k = 2..7
    k4, k5 = 1.0 - 6.0 * v, g * (1.0 - 12.0 * v)
    k6, k7 = 1.0 - v * (30.0 - 120.0 * v), g * (1.0 - v * (60.0 - 360.0 * v))
    tail = near * (k4 / 24.0 + near * (k5 / 120.0 + near * (k6 / 720.0 + near * k7 / 5040.0)))
    series = v * near**2 * (0.5 + near * (g / 6.0 + tail))

    growth = np.expm1(np.minimum(d, _EXP_LIMIT))
    forward = np.log1p(q * growth) - q * d

    decay = np.exp(-d)
    shrink = r * -np.expm1(-d)
    w = q + r * decay
    log_w = np.where(w < 0.5, np.log(w), np.log1p(-np.minimum(shrink, 0.75)))
    backward = r * d + log_w

    value = np.where(d < _SERIES_BELOW, series, np.where((q < 0.5) & (d < _EXP_LIMIT), forward, backward))
    return value, q * shrink / w


def _from_logit(q: FloatArray, r: FloatArray, d: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return p, 1 - p, dp/dq, dp/dc at the logit distance d, without cancellation."""
    decay = np.exp(-d)
    w = q + r * decay
    # If exp(-d) is subnormal or zero, its ratio to w may still be a number: w is near exp(-d) or q.
    far = np.exp(-d - np.logaddexp(np.log(q), np.log(r) - d))
    distant = d > _EXP_LIMIT
    dp_dc = np.where(distant, far, decay / (w * -np.expm1(-d)))
    return q / w, np.where(distant, r * far, r * decay / w), d * dp_dc, dp_dc
