"""A proved enclosure of E softmax for many classes, from independent latent values and a change of covariance.

The softmax is the distribution of the largest of f_j + G_j with independent Gumbel variables G_j. Let f_j ~ N(m_j, d_j)
be independent and u_j = e^(f_j - t). Then E p_c p_i p_j = (1/2) integral of E[u_c u_i u_j exp(-sum u)] dt. The
integrand is a product of expectations of one variable each. So it is for all moments of degree one to three. The
trapezoidal rules in t and in f_j, or in G_j, have known errors. With U = sum u, the part cut off is at most P(U <= 1)
beyond and E (1 + U + U^2 / 2) e^-U below.

From independent values to the given covariance, D_ij = Var(f_i - f_j) changes by V_ij. Along the segment
dp_c = (1/2) sum_ij (V_ci / 2 + V_cj / 2 - V_ij) E p_c p_i p_j. Each E q, q a product of k probabilities with counts n,
is known from its value at the start in two ways:

- The slope of log E q is a mean of -n'Vn / 4 + k n'Vp / 2 - k (k + 1) p'Vp / 4, which is bounded.
- Let l be the eigenvalues of the change relative to S0, a <= 1 + l <= b. The density of N(m, S) is at most prod
  sqrt(b / (1 + l)) times that of N(m, b S0). It is at least prod sqrt(a / (1 + l)) times that of N(m, a S0).

The second does not depend on the scale of the latent values. If both bounds are loose, `covariance_change` is used, and
E sigma(f_c - f_j) >= p_c >= 1 - sum_j E sigma(f_j - f_c).

Equation: derived, softmax of several classes
Source: McFadden 1974 (Gumbel variables). Trefethen & Weideman 2014, Theorem 5.1 (trapezoidal rule).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.multiclass.latent_differences import covariance_change
from gpsuite.models.classification.links import LOGISTIC
from gpsuite.models.classification.multiclass_posterior import SoftmaxMoments

TOLERANCE = 1e-9  # error of each rule
REACH = 6.2  # standard deviations of a latent value, 6e-10 of its mass is farther away
WIDE = 2.5  # from this standard deviation on the rule is over the Gumbel variable
MOST_NODES = 1 << 12  # in t
GOOD, WORSE = 1e-3, 0.05  # below this error the second bound is skipped, above this width pairs of classes are used
_STRIP = 0.9 * math.pi / 2.0  # |Im t| up to which no |exp(-u)| exceeds one
_COS = math.cos(_STRIP)
_STEP = 2.0 * math.pi * _STRIP / math.log1p(4.0 / (_COS**3 * TOLERANCE))
_CUBE = (3.0 / (math.e * _COS)) ** 3  # largest |u^3 exp(-u)| in the strip. Lower powers have smaller values
_BELOW, _BEYOND = 3.1, 21.0  # range of a Gumbel variable: the part cut off is near 1e-9
_LARGE, _TINY = 200.0, 1e-300
_PAIR, _TRIPLE = 1.0 / 4.0, 4.0 / 27.0  # upper limits of p_i p_j and p_c p_i p_j, other than p_c^3
_LEAST = 1e-2  # share of the largest variance that every independent value has at least
ROUNDING = 1e-11
_QUADRATURE = 1e-12  # of the logistic link
_EIGENVALUE = 1e-9


@dataclass(frozen=True)
class IndependentMoments:
    """E p_c [B, C], E p_c p_j [B, C, C] and E p_c p_i p_j of independent values, and the error of every entry, [B]."""

    first: FloatArray
    second: FloatArray
    third: FloatArray
    error: FloatArray


@dataclass(frozen=True)
class _Ends:
    low: FloatArray
    high: FloatArray


def enclosed_moments(mean: FloatArray, root: FloatArray) -> SoftmaxMoments:
    """Return E softmax(f) with proved errors, f = mean [B, C] + root [B, C, C - 1] z. As `softmax_moments`."""
    D = ((root[:, :, None] - root[:, None]) ** 2).sum(axis=3)
    variance = independent_variances(D, mean)
    change = D - variance[:, :, None] - variance[:, None]
    np.einsum("bcc->bc", change)[...] = 0.0
    known = independent_moments(mean, variance)
    pairs, triples = _by_slope(known, change)
    found = _moved(known, change, triples)
    rough = np.flatnonzero(~(found.high - found.low < 2.0 * GOOD).all(axis=1))
    if len(rough):
        part = IndependentMoments(*(getattr(known, name)[rough] for name in vars(known)))
        for ends, other in zip((pairs, triples), _by_density(mean[rough], variance[rough], change[rough]), strict=True):
            _narrow(ends, rough, other)
        better = _moved(part, change[rough], _Ends(triples.low[rough], triples.high[rough]))
        _narrow(found, rough, better)
        wide = rough[(found.high - found.low)[rough].max(axis=1) > WORSE]
        _narrow(found, wide, _pairwise(mean[wide], D[wide]))
    value, room = 0.5 * (found.low + found.high), 0.5 * (found.high - found.low).max(axis=1) + ROUNDING
    product, error = 0.5 * (pairs.low + pairs.high), 0.5 * (pairs.high - pairs.low)
    for each in (product, error):
        np.einsum("bcc->bc", each)[...] = 0.0
    np.einsum("bcc->bc", product)[...] = value - product.sum(axis=2)
    # a margin's gradient has the errors of one row once. It has those of the other row, the diagonal's, twice
    return SoftmaxMoments(value, product, room, True, 1.5 * error.sum(axis=2).max(axis=1) + ROUNDING, False)


def independent_variances(D: FloatArray, mean: FloatArray) -> FloatArray:
    """Return d > 0 [B, C] with d_i + d_j near D_ij, by least squares with larger weights for probable classes."""
    C = D.shape[1]
    if C == 2:
        return np.asarray(0.5 * D[:, 0, [1, 1]])
    scale = np.sqrt(1.0 + math.pi / 16.0 * D.mean(axis=(1, 2)))[:, None]
    weight = np.exp(0.5 * (mean - mean.max(axis=1, keepdims=True)) / scale) + 0.05
    both = weight[:, :, None] * weight[:, None]
    np.einsum("bcc->bc", both)[...] = 0.0
    normal = both.copy()
    np.einsum("bcc->bc", normal)[...] = both.sum(axis=2)
    found = np.linalg.solve(normal, (both * D).sum(axis=2)[:, :, None])[:, :, 0]
    return np.maximum(found, _LEAST * D.max(axis=(1, 2))[:, None])


def independent_moments(mean: FloatArray, variance: FloatArray) -> IndependentMoments:
    """Return the moments for independent f_c ~ N(mean_c, variance_c), [B, C] each.

    If they would take too many nodes, they are 0 and the error is 1.
    """
    B, C = mean.shape
    found = IndependentMoments(np.zeros((B, C)), np.zeros((B, C, C)), np.zeros((B, C, C, C)), np.ones(B))
    for b, (m, deviation) in enumerate(zip(mean, np.sqrt(variance), strict=True)):
        t = _nodes(m, deviation)
        if t is not None:
            found.first[b], found.second[b], found.third[b], found.error[b] = _integrals(m, deviation, t)
    return found


def _nodes(mean: FloatArray, deviation: FloatArray) -> FloatArray | None:
    """Return the nodes in t. If all values are wide, H and h are at most 1.66 in |Im t| <= their deviation."""
    step, least = _STEP, float(deviation.min())
    if least > WIDE:
        step = max(step, 2.0 * math.pi * least / math.log1p(20.0 * 1.66 ** len(mean) / TOLERANCE))
    low = float(np.max(mean - REACH * deviation)) - _BELOW - math.log(2.0) - _STEP  # `_integrals` needs them
    high = float(np.max(mean + REACH * deviation)) + _BEYOND
    if not high - low <= MOST_NODES * step:
        return None
    return np.asarray(low + step * np.arange(math.ceil((high - low) / step) + 1))


def _integrals(
    mean: FloatArray, deviation: FloatArray, t: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return the moments of one Gaussian and their error. The powers are E u_c^k exp(-u_c), k = 0 to 3."""
    C, step = len(mean), float(t[1] - t[0])
    powers, inner, wide = np.empty((4, C, len(t))), 0.0, deviation > WIDE
    for rule, which in ((_over_latent, ~wide), (_over_gumbel, wide)):
        if which.any():
            powers[:, which], error = rule(mean[which, None] - t, deviation[which])
            inner = max(inner, error)
    below = np.maximum(powers[0], _TINY)
    every = np.exp(np.log(below).sum(axis=0))
    ratio, square, cube = powers[1:] / below
    weighted = step * every * ratio
    first, second = weighted.sum(axis=1), weighted @ ratio.T
    third = 0.5 * ((weighted[:, None] * ratio).reshape(C * C, -1) @ ratio.T).reshape(C, C, C)
    twice, i = 0.5 * step * (every * square) @ ratio.T, np.arange(C)
    a, b = np.nonzero(~np.eye(C, dtype=bool))
    third[a, a, b] = third[a, b, a] = third[b, a, a] = twice[a, b]
    second[i, i], third[i, i, i] = step * square @ every, 0.5 * step * cube @ every
    # one node for the sum's part from outside: no U^k exp(-U) / k! exceeds 2 / 3
    beyond = (1.0 + 0.71 * step) * (1.0 - float(every[-1]))
    lost = beyond + (1.9 + 3.0 * step) * float(every[math.ceil(math.log(2.0) / step)])
    lost += (5.0 + 4.0 * step) * C * inner
    # no H exceeds 1, the integrals of all powers are at most 2, each factor has an error of `inner`
    length = float(t[-1] - t[0])
    return first, second, third, lost + 2.0 * TOLERANCE + 2.0 * inner * (length + 3.0 * C) + ROUNDING


def _over_latent(offset: FloatArray, deviation: FloatArray) -> tuple[FloatArray, float]:
    """Return E u^k exp(-u), u = exp(offset + deviation z), k = 0 to 3, [4, C, T], and their error, by the rule in z."""
    a = min(_STRIP / max(float(deviation.max()), 1e-9), REACH)
    step = 2.0 * math.pi * a / math.log1p(2.0 * _CUBE * math.exp(0.5 * a * a) / TOLERANCE)
    count = math.ceil(REACH / step)
    z = step * np.arange(-count, count + 1)
    weights = step * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    grown, shift = np.exp(deviation[:, None] * z), np.exp(np.minimum(offset, _LARGE))
    term = np.exp(-shift[:, :, None] * grown[:, None])
    sums = term @ np.stack([grown**power * weights for power in range(4)], axis=2)
    found = sums.transpose(2, 0, 1) * np.stack([shift**power for power in range(4)])
    return found, TOLERANCE + 2.0 * abs(1.0 - float(weights.sum()))


def _over_gumbel(offset: FloatArray, deviation: FloatArray) -> tuple[FloatArray, float]:
    """Return the values of `_over_latent` by the rule over the Gumbel variable g.

    H(t) = E Phi((t - m - g) / deviation), h = H', E u^2 exp(-u) = h + h' and E u^3 exp(-u) = 2 h + 3 h' + h''.
    """
    step = 2.0 * math.pi * _STRIP / math.log1p(26.0 / TOLERANCE)
    g = step * np.arange(-math.ceil(_BELOW / step), math.ceil(_BEYOND / step) + 1)
    weights = step * np.exp(-g - np.exp(-g))
    wide = deviation[:, None]
    x = -(offset[:, :, None] + g) / wide[:, None]
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    value, slope = ndtr(x) @ weights, density @ weights / wide
    bend = -(density * x) @ weights / wide**2
    twist = (density * (x * x - 1.0)) @ weights / wide**3
    found = np.stack([value, slope, slope + bend, 2.0 * slope + 3.0 * bend + twist])
    return found, TOLERANCE + 2.0 * abs(1.0 - float(weights.sum()))


def _by_slope(known: IndependentMoments, change: FloatArray) -> tuple[_Ends, _Ends]:
    """Bound all E p_i p_j at the segment's end and the average E p_c p_i p_j along it, by the slope of the log."""
    C, size = change.shape[1], np.abs(change).max(axis=(1, 2))
    among = (1.0 - 1.0 / C) * size
    pairs = change[:, :, :, None] + change[:, :, None, :] + change[:, None]
    two, three = np.zeros_like(change), np.zeros_like(pairs)
    for each in change.transpose(1, 0, 2):  # classes to compare with
        both = each[:, :, None] + each[:, None]
        two = np.maximum(two, np.abs(both))
        three = np.maximum(three, np.abs(each[:, :, None, None] + both[:, None]))
    second = 0.5 * (np.abs(change) + 2.0 * two + 3.0 * among[:, None, None])
    third = 0.5 * (np.abs(pairs) + 3.0 * three + 6.0 * among[:, None, None, None])
    second, third = (np.clip(each * (1.0 + 1e-12), 1e-6, 700.0) for each in (second, third))
    error = known.error[:, None, None]
    ends = _Ends((known.second - error) * np.exp(-second), (known.second + error) * np.exp(second))
    error = error[:, None]
    mean = _Ends((known.third - error) * -np.expm1(-third) / third, (known.third + error) * np.expm1(third) / third)
    return _clipped(ends, _PAIR), _clipped(mean, _TRIPLE)


def _by_density(mean: FloatArray, variance: FloatArray, change: FloatArray) -> tuple[_Ends, _Ends]:
    """Bound the same by ratios of densities, to those of multiples of the independent values' covariance."""
    basis = _zero_sum(change.shape[1])
    inverse = np.linalg.inv(np.linalg.cholesky(basis.T @ (variance[:, :, None] * basis)))
    relative = np.linalg.eigvalsh(inverse @ (-0.5 * basis.T @ change @ basis) @ inverse.transpose(0, 2, 1))
    wide = 1.0 + np.maximum(relative.max(axis=1), 0.0) + _EIGENVALUE
    thin = np.maximum(1.0 + np.minimum(relative.min(axis=1), 0.0) - _EIGENVALUE, 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        whole = np.log(np.maximum(1.0 + relative - _EIGENVALUE, 0.0)).sum(axis=1)
        count, average = relative.shape[1], np.log1p(relative.mean(axis=1) + _EIGENVALUE)
        most = np.exp(0.5 * (count * np.log(wide) - whole))
        least = np.exp(0.5 * count * (np.log(thin) - np.maximum(average, 0.0)))
    known = [independent_moments(mean, factor[:, None] * variance) for factor in (thin, wide)]
    # log det is concave along the segment: the upper factor is the larger of the ends, the lower one follows from the
    # average
    most = np.maximum(most, wide ** (0.5 * count))
    low, high = (each.error[:, None, None] for each in known)
    least, most = (each[:, None, None] for each in (least, most))
    pairs = _Ends(least * (known[0].second - low), most * (known[1].second + high))
    least, most, low, high = (each[:, None] for each in (least, most, low, high))
    triples = _Ends(least * (known[0].third - low), most * (known[1].third + high))
    return _clipped(pairs, _PAIR), _clipped(triples, _TRIPLE)


def _zero_sum(C: int) -> FloatArray:
    """Return an orthonormal basis [C, C - 1] of the vectors that sum to zero."""
    return np.asarray(np.linalg.qr(np.eye(C)[:, 1:] - 1.0 / C)[0])


def _clipped(ends: _Ends, most: float) -> _Ends:
    """Return the ends within [0, most]. Unknown ends become 0 and `most`."""
    low, high = np.fmax(ends.low, 0.0), np.fmin(ends.high, most)
    return _Ends(np.where(low <= high, low, 0.0), np.where(low <= high, high, most))


def _narrow(ends: _Ends, rows: IntArray, other: _Ends) -> None:
    """Replace the ends of these rows by the better of both."""
    ends.low[rows], ends.high[rows] = np.fmax(ends.low[rows], other.low), np.fmin(ends.high[rows], other.high)


def _moved(known: IndependentMoments, change: FloatArray, triples: _Ends) -> _Ends:
    """Bound E p_c [B, C] at the end of the segment.

    Args:
        known: moments at its start.
        change: change of the variances of differences, [B, C, C].
        triples: averages of E p_c p_i p_j over the segment.
    """
    own = 0.5 * change[:, :, :, None]
    weight = 0.5 * (own + own.transpose(0, 1, 3, 2) - change[:, None])
    up, down, error = np.maximum(weight, 0.0), np.maximum(-weight, 0.0), known.error[:, None]
    low = known.first - error + (up * triples.low - down * triples.high).sum(axis=(2, 3))
    high = known.first + error + (up * triples.high - down * triples.low).sum(axis=(2, 3))
    for c in range(known.first.shape[1]):
        linear = covariance_change(change, change, c)
        low[:, c] = np.fmax(low[:, c], linear.lowest(known.first[:, c] - known.error))
        high[:, c] = np.fmin(high[:, c], linear.highest(known.first[:, c] + known.error))
    return _clipped(_Ends(low - ROUNDING, high + ROUNDING), 1.0)


def _pairwise(mean: FloatArray, D: FloatArray) -> _Ends:
    """Bound E p_c [B, C] by the expectations of the logistic function of pairs."""
    C = mean.shape[1]
    ahead = LOGISTIC.probability(mean[:, :, None] - mean[:, None], D)
    i = np.arange(C)
    ahead[:, i, i] = 1.0
    return _clipped(_Ends(1.0 - (1.0 - ahead).sum(axis=2) - C * _QUADRATURE, ahead.min(axis=2) + _QUADRATURE), 1.0)
