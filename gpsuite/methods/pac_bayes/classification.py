"""PAC-Bayes for two or more classes: GP prior with or without other rows, Gibbs risk in a bracket, no sampling.

A class's score is f_c(x) = m_c(x) + u(x)' w_c with w_c ~ N(0, I) under the prior, independent over the classes. The
largest score decides. Under the posterior w_c ~ N(V d_c, I - V diag(1 - rho) V'), V orthonormal, with the same
covariance for every class. Only differences of scores decide, so the KL is that of the differences.

Equation: derived, GP classifiers by PAC-Bayes
Equation: Catoni 2007, Theorem 1.2.6
Equation: Langford & Shawe-Taylor 2002
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, eigh, solve_triangular
from scipy.special import ndtr, ndtri, roots_hermitenorm

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound, catoni_bound, kl_bound
from gpsuite.models.linalg import stable_cholesky
from gpsuite.models.search import Minimum, StepRules, minimise

Single = npt.NDArray[np.float32]
Floats = npt.NDArray[np.floating[Any]]
PRIOR_JITTER: Final = 1e-4  # factor of K_zz in the prior's precision
CELLS: Final = 2000  # equally likely cells of the normal distribution in the bracket of a row's risk
NARROW: Final = 1e-5  # if pairs of classes bracket a row's risk this closely, cells are not needed
LEAST_RATIO, MOST_RATIO = 1e-6, 1.0  # limits of the ratio of the posterior's variance to the prior's in a direction
_BLOCK = 2000  # rows of a kernel matrix held at once
_NODES = 12  # Gauss-Hermite nodes of the risk that training minimises
_NOISY = 0.9  # initial ratio rho of the search that starts near the prior's noise
_FAR = 7.0  # in training, larger differences of scores count as certain
_NEAR_SHARE = 0.02  # guessed share of rows near a boundary, which scales the search's variables
_DIRECTION_ROWS = 15_000  # rows that decide the directions. A bound holds in any directions
_RULES = StepRules(decrease=1e-7, slope=1e-6)


@dataclass(frozen=True)
class PriorSettings:
    """Hyperparameters of the prior from other rows.

    Attributes:
        gamma: k(x, z) = exp(-gamma |x - z|^2 / median |x - z|^2).
        noise: sigma^2 of the regression on the labels.
        temper: s, factor of the regression's covariance.
    """

    gamma: float
    noise: float
    temper: float


@dataclass(frozen=True, eq=False)
class InformedPrior:
    """GP regression on the labels of other rows, tempered: w = A^-1 K_zx (Y - 1/C), covariance s A^-1.

    A = K_zx K_xz + sigma^2 (K_zz + 1e-4 I).

    Attributes:
        inducing: [M, P] features of the inducing rows, a subset of the prior's rows.
        width: gamma / median |x - z|^2.
        lower: [M, M] Cholesky factor of A.
        mean: [M, C] mean weights.
        temper: s.
    """

    inducing: Single
    width: float
    lower: FloatArray
    mean: FloatArray
    temper: float

    @classmethod
    def fit(
        cls, features: Single, labels: IntArray, classes: int, inducing: IntArray, settings: PriorSettings
    ) -> InformedPrior:
        """Return the prior of these rows.

        Args:
            features: [n, P] of the prior's rows.
            labels: [n], from 0 to C - 1.
            classes: C.
            inducing: [M] indices of the inducing rows.
            settings: hyperparameters.

        Raises:
            NotPositiveDefiniteError: if A cannot be factorised. More jitter would change the prior.
        """
        Z = features[inducing]
        width = settings.gamma / median_distance(Z)
        M = len(Z)
        A, right = np.zeros((M, M), order="F"), np.zeros((M, classes))
        for rows, K in _kernel_blocks(features, Z, width):
            A = blas.dsyrk(1.0, K.T, beta=1.0, c=A, lower=1, overwrite_c=1)
            right += K.T @ (np.eye(classes)[labels[rows]] - 1.0 / classes)
        for rows, K in _kernel_blocks(Z, Z, width):
            A[:, rows] += settings.noise * K.T
        A.flat[:: M + 1] += settings.noise * PRIOR_JITTER
        factor = stable_cholesky(A.T, jitters=(0.0,))
        return cls(Z, width, factor.lower, factor.solve(right), settings.temper)

    def moments(self, features: Single) -> tuple[FloatArray, FloatArray]:
        """Return mean scores [n, C] and their variance [n]. The variance is the same for every class."""
        parts = [(mean, (u * u).sum(axis=1)) for _, mean, u in self._blocks(features)]
        return np.concatenate([mean for mean, _ in parts]), np.concatenate([variance for _, variance in parts])

    def whitened(self, features: Single) -> tuple[FloatArray, Single]:
        """Return mean scores [n, C] and u(x) = sqrt(s) L^-1 k(x), [n, M] in float32."""
        n, M = len(features), len(self.lower)
        means, found = np.empty((n, self.mean.shape[1])), np.empty((n, M), dtype=np.float32)
        for rows, mean, u in self._blocks(features):
            means[rows], found[rows] = mean, u
        return means, found

    def _blocks(self, features: Single) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        for rows, K in _kernel_blocks(features, self.inducing, self.width):
            mean = K @ self.mean
            half = solve_triangular(self.lower, K.T, lower=True, overwrite_b=True, check_finite=False)
            yield rows, mean, math.sqrt(self.temper) * half.T


def median_distance(Z: Single) -> float:
    """Return the median of |z - z'|^2 over the pairs of at most 1,000 rows, 1 if it is 0."""
    few = Z[:1000].astype(np.float64)
    distances = squared_distances(few, few)
    found = float(np.median(distances[np.triu_indices(len(few), 1)])) if len(few) > 1 else 0.0
    return found if found > 0.0 else 1.0


def squared_distances(left: Floats, right: Floats) -> Floats:
    """Return |x - z|^2, [n, M], at least 0."""
    norms = (left * left).sum(axis=1)[:, None] + (right * right).sum(axis=1)[None, :]
    return np.asarray(np.maximum(norms - 2.0 * (left @ right.T), 0.0))


def _kernel_blocks(features: Single, Z: Single, width: float) -> Iterator[tuple[slice, FloatArray]]:
    """Yield rows and their K_xz in float64, in blocks. Distances are in float32."""
    for start in range(0, len(features), _BLOCK):
        rows = slice(start, min(start + _BLOCK, len(features)))
        yield rows, np.exp(-width * squared_distances(features[rows], Z).astype(np.float64))


# The posterior: directions in which the rows' labels move the prior, and the size of the moves.


@dataclass(frozen=True, eq=False)
class Projected:
    """Rows in the form that the posterior needs.

    Attributes:
        prior_mean: [n, C] mean scores under the prior.
        along: [n, R] T = U V.
        rest: [n] |u|^2 - |V' u|^2.
    """

    prior_mean: FloatArray
    along: Single
    rest: FloatArray

    @classmethod
    def of(cls, prior_mean: FloatArray, U: Single, directions: FloatArray) -> Projected:
        """Return the rows with whitened features U [n, M] in the directions V [M, R]."""
        along = U @ directions.astype(np.float32)
        total = np.einsum("ij,ij->i", U, U, dtype=np.float64)
        return cls(prior_mean, along, np.maximum(total - np.einsum("ij,ij->i", along, along, dtype=np.float64), 0.0))

    def moments(self, shift: FloatArray, ratio: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean scores [n, C] and their variance [n]."""
        mean = self.prior_mean + self.along @ shift
        return mean, self.rest + np.square(self.along) @ ratio


@dataclass(frozen=True, eq=False)
class Posterior:
    """d and rho.

    Attributes:
        directions: [M, R] V, orthonormal. R = 0 is the prior itself.
        shift: [R, C] d.
        ratio: [R] rho, in (0, 1].
    """

    directions: FloatArray
    shift: FloatArray
    ratio: FloatArray

    @classmethod
    def prior(cls, M: int, classes: int) -> Posterior:
        return cls(np.empty((M, 0)), np.empty((0, classes)), np.empty(0))

    @property
    def kl(self) -> float:
        """KL(Q||P) of the differences of scores, in nats."""
        return kl_of_differences(self.shift, self.ratio)


def kl_of_differences(shift: FloatArray, ratio: FloatArray) -> float:
    """Return (1/2) sum_c |d_c - mean d|^2 + (C - 1)/2 sum_j (rho_j - 1 - ln rho_j)."""
    centred = shift - shift.mean(axis=1, keepdims=True)
    spread = float((ratio - 1.0 - np.log(ratio)).sum())
    return 0.5 * float((centred**2).sum()) + 0.5 * (shift.shape[1] - 1) * spread


def leading_directions(U: Single, count: int) -> FloatArray:
    """Return the orthonormal eigenvectors [M, R] of U'U with the largest eigenvalues, R at most `count` and M."""
    M = U.shape[1]
    gram = np.zeros((M, M), order="F")
    few = U[:: -(-len(U) // _DIRECTION_ROWS)]
    for start in range(0, len(few), _BLOCK):
        block = few[start : start + _BLOCK].T.astype(np.float64)
        gram = blas.dsyrk(1.0, block, beta=1.0, c=gram, lower=1, overwrite_c=1)
    first = max(M - count, 0)
    _, vectors = eigh(gram, lower=True, subset_by_index=(first, M - 1), overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(vectors[:, ::-1])


def train(rows: Projected, labels: IntArray, constant: float, directions: FloatArray, budget: Budget) -> Posterior:
    """Return the posterior that minimises C n risk + KL, and so Catoni's bound at C, or the prior if none is better.

    The search computes the risk by Gauss-Hermite quadrature. The certificate brackets it again. The objective has
    several minima: if noise makes a row wrong, its slope is flat and the search ignores the row. So one search starts
    with the noise at which the slopes of KL and risk are about equal. Another starts near the prior's noise. The better
    result is taken.

    Args:
        rows: n rows in the directions.
        labels: [n].
        constant: C of Catoni's bound.
        directions: [M, R].
        budget: limit on evaluations or seconds.
    """
    R, classes = rows.along.shape[1], rows.prior_mean.shape[1]
    objective = training_objective(rows, labels, constant)
    curvature = _curvature(rows, constant)
    unit = np.concatenate([np.repeat(curvature**-0.5, classes), np.ones(R)])

    def scaled(point: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = objective(unit * point)
        return loss, unit * gradient

    zero = objective(np.zeros(R * (classes + 1)))[0]
    searches: list[Minimum] = []
    for ratio in (np.maximum(1.0 / curvature, LEAST_RATIO), np.full(R, _NOISY)):
        start = np.concatenate([_first_shift(rows, labels, ratio).ravel(), np.log(ratio)])
        searches.append(minimise(scaled, start / unit, budget, rules=_RULES))
    found = min(searches, key=lambda each: each.loss)
    if not found.loss < zero:
        return Posterior.prior(len(directions), classes)
    shift, ratio = _unpack(unit * found.point, R, classes)
    return Posterior(directions, shift - shift.mean(axis=1, keepdims=True), ratio)


def _curvature(rows: Projected, constant: float) -> FloatArray:
    """Return a guess at the curvature of n times the objective in each direction of d, [R].

    1 comes from the KL, the excess from the risk. With about its inverse as ratio rho, the slopes of KL and risk are
    equal.
    """
    squares = np.square(rows.along).sum(axis=0, dtype=np.float64)
    spread = float(np.mean(rows.rest)) + float(squares.sum()) / len(rows.rest)
    return np.asarray(1.0 + constant * _NEAR_SHARE * squares / max(spread, 1e-300))


def _first_shift(rows: Projected, labels: IntArray, ratio: FloatArray) -> FloatArray:
    """Return a ridge regression's shift [R, C], scaled so its scores slightly exceed the noise at these ratios."""
    classes = rows.prior_mean.shape[1]
    T = rows.along.astype(np.float64)
    gram = T.T @ T
    gram.flat[:: len(gram) + 1] += 0.01 * np.trace(gram) / max(len(gram), 1) + 1e-12
    d = np.linalg.solve(gram, T.T @ (np.eye(classes)[labels] - 1.0 / classes))
    spread = math.sqrt(float(np.mean(rows.rest + np.square(rows.along) @ ratio.astype(np.float32))))
    return np.asarray(2.0 * spread * d)


def training_objective(
    rows: Projected, labels: IntArray, constant: float
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Return d and ln rho, flat -> (C n risk + KL) / n and its gradient."""
    (n, R), classes = rows.along.shape, rows.prior_mean.shape[1]
    squares = np.square(rows.along)
    nodes, weights = roots_hermitenorm(_NODES)
    weights = weights / weights.sum()

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        shift, ratio = _unpack(point, R, classes)
        mean = rows.prior_mean + rows.along @ shift.astype(np.float32)
        variance = rows.rest + squares @ ratio.astype(np.float32)
        risk, d_mean, d_variance = _risk_gradient(mean, variance, labels, nodes, weights)
        kl = kl_of_differences(shift, ratio)
        centred = shift - shift.mean(axis=1, keepdims=True)
        d_shift = constant * (rows.along.T @ d_mean.astype(np.float32)) + centred
        d_ratio = constant * (squares.T @ d_variance.astype(np.float32)) + 0.5 * (classes - 1) * (1.0 - 1.0 / ratio)
        inside = (point[R * classes :] < 0.0) & (ratio > LEAST_RATIO)
        gradient = np.concatenate([d_shift.ravel(), d_ratio * ratio * inside])
        return (constant * risk + kl) / n, gradient / n

    return objective


def _unpack(point: FloatArray, R: int, classes: int) -> tuple[FloatArray, FloatArray]:
    ratio = np.clip(np.exp(np.minimum(point[R * classes :], 0.0)), LEAST_RATIO, MOST_RATIO)
    return point[: R * classes].reshape(R, classes), ratio


def _risk_gradient(
    mean: FloatArray, variance: FloatArray, labels: IntArray, nodes: FloatArray, weights: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return the sum of the rows' risks by quadrature, and its derivatives in mean scores and variances."""
    d_every, d_spread = np.zeros_like(mean), np.zeros_like(variance)
    deviation = np.sqrt(np.maximum(variance, 1e-300))
    lead = _leads(mean, deviation, labels)
    near = np.flatnonzero(lead.min(axis=1) < _FAR)
    lead, labels, deviation, n = lead[near], labels[near], deviation[near], len(near)
    right, slope = np.zeros(n), np.zeros_like(lead)
    for node, weight in zip(nodes, weights, strict=True):
        at = lead + node
        below = np.maximum(ndtr(at), 1e-300)
        product = weight * below.prod(axis=1)
        right += product
        slope += product[:, None] * np.exp(-0.5 * at * at) / below
    slope /= -math.sqrt(2.0 * math.pi)  # derivatives of the risk in `lead`
    d_spread[near] = -0.5 * (slope * lead).sum(axis=1) / deviation**2
    d_other = -slope / deviation[:, None]
    d_near = np.zeros((n, mean.shape[1]))
    np.put_along_axis(d_near, _others(labels, mean.shape[1]), d_other, axis=1)
    d_near[np.arange(n), labels] = -d_other.sum(axis=1)
    d_every[near] = d_near
    return float(n - right.sum()), d_every, d_spread


def _others(labels: IntArray, classes: int) -> IntArray:
    """Return the classes other than a row's own, [n, C - 1]."""
    each = np.arange(classes - 1)[None, :]
    return np.asarray(each + (each >= labels[:, None]), dtype=np.int64)


def _leads(mean: FloatArray, deviation: FloatArray, labels: IntArray) -> FloatArray:
    """Return (m_y - m_c) / sqrt(v) over the other classes c, [n, C - 1]."""
    own = mean[np.arange(len(labels)), labels]
    gaps = own[:, None] - np.take_along_axis(mean, _others(labels, mean.shape[1]), axis=1)
    return np.asarray(gaps / deviation[:, None], dtype=np.float64)


# The Gibbs risk in a bracket, and the bounds.


def gibbs_errors(
    mean: FloatArray, variance: FloatArray, labels: IntArray, cells: int = CELLS
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends of each row's probability of a wrong class, [n] each.

    The probability is 1 - E_z prod_(c != y) Phi((m_y - m_c) / sqrt(v) + z), with z ~ N(0, 1) the noise of score y. The
    product grows in z. Take cells of equal probability. The mean of the products at left ends is below the expectation,
    that at right ends above. Both differ by one cell. The risk is also at least the largest of
    Phi(-(m_y - m_c) / sqrt(2 v)) and at most their sum. These two differ little if the risk is small. If they differ by
    at most 1e-5, they are the ends.

    Args:
        mean: [n, C] scores.
        variance: [n] of each score. At 0 the risk is 0 or 1. A tie counts as wrong.
        labels: [n].
        cells: number of cells of the normal distribution.
    """
    n = len(labels)
    lower, upper = np.zeros(n), np.ones(n)
    still = variance <= 0.0
    lead = _leads(mean, np.where(still, 1.0, np.sqrt(np.maximum(variance, 1e-300))), labels)
    wrong = (lead <= 0.0).any(axis=1)
    lower[still], upper[still] = wrong[still], wrong[still]
    pairwise = ndtr(-lead / math.sqrt(2.0))
    most, union = pairwise.max(axis=1), pairwise.sum(axis=1)
    closed = ~still & (union - most < NARROW)
    lower[closed], upper[closed] = most[closed], union[closed]
    ends = ndtri(np.linspace(0.0, 1.0, cells + 1)[1:-1])
    for part in np.array_split(np.flatnonzero(~still & ~closed), max(n // _BLOCK, 1)):
        inner = np.zeros(len(part))
        for end in ends:
            inner += ndtr(lead[part] + end).prod(axis=1)
        # at the far left the product is 0, at the far right 1
        lower[part] = np.maximum(most[part], 1.0 - (inner + 1.0) / cells)
        upper[part] = np.minimum(union[part], 1.0 - inner / cells)
    return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


@dataclass(frozen=True)
class ClassBounds:
    """Risk and bounds of a classifier from n rows that did not choose its prior or constant.

    Attributes:
        gibbs_lower: lower end of the Gibbs risk on the rows.
        gibbs: upper end.
        errors: number of errors of the mean scores' class.
        n: number of rows.
        kl: KL(Q||P) in nats.
        bound_kl: PAC-Bayes-kl bound, with ln(2 sqrt(n) / delta).
        bound_catoni: Catoni's bound at the constant, with ln(1 / delta).
        bound_binomial: test-set bound of the mean scores' class. NaN if the rows also trained.
    """

    gibbs_lower: float
    gibbs: float
    errors: int
    n: int
    kl: float
    bound_kl: float
    bound_catoni: float
    bound_binomial: float


@dataclass(frozen=True)
class Confidence:
    """Terms of the bounds other than the KL.

    Attributes:
        delta: allowed probability that a bound fails.
        choices: number of settings that the rows may have chosen from. Each bound adds ln of it.
        constant: C of Catoni's bound.
        slack: largest change of the Gibbs risk by float32 arithmetic.
    """

    delta: float
    choices: int
    constant: float
    slack: float


def bounds_of(
    mean: FloatArray, variance: FloatArray, labels: IntArray, posterior: Posterior, confidence: Confidence
) -> ClassBounds:
    """Return risk and bounds of a posterior on n rows. The KL bound needs n >= 8 (Maurer 2004).

    The binomial bound is for the class of the posterior's mean scores. It is NaN if these rows moved the posterior.
    """
    n, kl, delta = len(labels), posterior.kl, confidence.delta / confidence.choices
    lower, upper = gibbs_errors(mean, variance, labels)
    risk = min(float(upper.mean()) + confidence.slack, 1.0)
    wrong = int((_leads(mean, np.ones(n), labels) <= 0.0).any(axis=1).sum())
    pays = (kl + math.log(2.0 * math.sqrt(n) / delta)) / n
    catoni = catoni_bound(risk, (kl - math.log(delta)) / n, confidence.constant)[0]
    untouched = posterior.shift.shape[0] == 0
    return ClassBounds(
        max(float(lower.mean()) - confidence.slack, 0.0),
        risk,
        wrong,
        n,
        kl,
        kl_bound(risk, pays)[0],
        min(catoni, 1.0),
        binomial_upper_bound(wrong, n, delta) if untouched else math.nan,
    )
