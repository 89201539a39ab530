"""Minimisers of a'Qa/2 - r'a + l1 |a|_1 in a box |a| <= bound: scikit-learn's solvers and an exact last step.

Equation: Chang & Lin 2011, Sec. 2.4
Equation: Friedman et al. 2010
Equation: derived, objectives and gradients
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.perturbation import objectives
from gpsuite.methods.perturbation.objectives import Form, Minimiser, Objective, Weighting, spectrum

_TOLERANCE = 1e-10
_ITERATIONS = 5_000
_STEPS_PER_COEFFICIENT = 5
# Coefficients within this share of the largest count as zero or as the bound.
_SAME = 1e-7
# A fit has converged when its duality gap is below this share of the objective at zero.
_GAP = 1e-9


def support_vectors(K: FloatArray, y: FloatArray, weight: float, epsilon: float) -> FloatArray:
    """Return the coefficients [n] of support vector regression without bias. Each residual has the weight `weight`.

    LIBSVM always fits a bias. So the data are doubled by (-x, -y), with kernel [[K, -K], [-K, K]]. This problem does
    not change under f -> -f. So zero is an optimal bias, and the doubled problem is twice the wanted one.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVR

    doubled = np.block([[K, -K], [-K, K]])
    scale = float(np.max(np.abs(y))) or 1.0
    solver = SVR(
        kernel="precomputed",
        C=0.5 * weight / scale,
        epsilon=epsilon / scale,
        tol=_TOLERANCE,
        max_iter=1000 * _ITERATIONS,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller looks at the duality gap
        solver.fit(doubled, np.append(y, -y) / scale)
    both = np.zeros(2 * len(y))
    both[solver.support_] = solver.dual_coef_[0]
    return np.asarray(scale * (both[: len(y)] - both[len(y) :]))


def lasso(K: FloatArray, y: FloatArray, penalty: float) -> FloatArray:
    """Return the minimiser [n] of |y - K a|^2/2 + penalty |a|_1 by coordinate descent."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    solver = Lasso(penalty / len(y), fit_intercept=False, tol=_TOLERANCE, max_iter=_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the caller looks at the duality gap
        solver.fit(K, y)
    return np.asarray(solver.coef_, dtype=np.float64)


def polished(Q: FloatArray, r: FloatArray, l1: float, bound: float, start: FloatArray) -> FloatArray:
    """Return the minimiser by an active-set method from a good start.

    Coefficients at zero or at the bound are held there. The free ones move towards the solution of Q_ff a_f = r_f - l1
    sign(a_f) - Q_fh a_h. The move ends where a coefficient would change sign or leave the box. This coefficient is then
    held. At a solution, the held coefficient with the largest descent is freed. The objective falls with each move.
    After the last step the current vector is returned: the caller checks the duality gap.
    """
    a = _snapped(start, bound)
    signs = np.sign(a)
    free = (a != 0.0) & (np.abs(a) < bound)
    for _ in range(_STEPS_PER_COEFFICIENT * len(a)):
        goal = _free_solution(Q, r - l1 * signs, free, a)
        share, stopper = _first_stop(a, goal, signs, bound, free)
        if stopper is not None:
            stop = 0.0 if goal[stopper] * signs[stopper] <= 0.0 else bound * signs[stopper]
            a = a + share * (goal - a)
            a[stopper] = stop
            signs[stopper], free[stopper] = np.sign(stop), False
            continue
        a = goal
        asked = _asked(Q, r, l1, a, free)
        if not np.any(asked):
            break
        worst = int(np.argmax(np.abs(asked)))
        free[worst] = True
        signs[worst] = signs[worst] or np.sign(asked[worst])
    return a


def _snapped(start: FloatArray, bound: float) -> FloatArray:
    """Return the start with values near zero or the bound moved to it."""
    a = start.copy()
    a[np.abs(a) <= _SAME * np.max(np.abs(a))] = 0.0
    at_bound = np.abs(a) >= (1.0 - _SAME) * bound
    a[at_bound] = np.sign(a[at_bound]) * bound
    return np.asarray(a)


def _first_stop(
    a: FloatArray, goal: FloatArray, signs: FloatArray, bound: float, free: BoolArray
) -> tuple[float, int | None]:
    """Return the step from `a` to `goal` at which a free coefficient first meets zero or the bound, and its index."""
    size, wanted = a * signs, goal * signs
    shares = np.full(len(a), np.inf)
    falling = free & (wanted <= 0.0)
    # a coefficient just freed from zero starts there: it only stops if it would move in the other direction
    shares[falling] = size[falling] / np.maximum(size[falling] - wanted[falling], np.finfo(np.float64).tiny)
    rising = free & (wanted > bound)
    shares[rising] = (bound - size[rising]) / (wanted[rising] - size[rising])
    stopper = int(np.argmin(shares))
    return (float(shares[stopper]), stopper) if np.isfinite(shares[stopper]) else (1.0, None)


def _free_solution(Q: FloatArray, target: FloatArray, free: BoolArray, a: FloatArray) -> FloatArray:
    """Return `a` with its free part replaced by the solution of the free coefficients' equations."""
    found = a.copy()
    if np.any(free):
        rhs = target[free] - Q[np.ix_(free, ~free)] @ a[~free]
        # not solve: inputs that are close to each other give nearly equal rows
        found[free] = np.linalg.lstsq(Q[np.ix_(free, free)], rhs, rcond=None)[0]
    return found


def _asked(Q: FloatArray, r: FloatArray, l1: float, a: FloatArray, free: BoolArray) -> FloatArray:
    """Return the descent direction of each held coefficient that would leave its place, and 0 for others."""
    downhill = r - Q @ a
    at_zero = np.sign(downhill) * np.maximum(np.abs(downhill) - l1, 0.0)
    inward = downhill - l1 * np.sign(a)
    leaves = np.where(a == 0.0, at_zero, np.where(inward * a < 0.0, inward, 0.0))
    # rounding of a stationary gradient must not free a coefficient
    slack = 1e-12 * (np.max(np.abs(r)) + l1)
    return np.asarray(np.where(free | (np.abs(leaves) <= slack), 0.0, leaves))


@dataclass(frozen=True, eq=False)
class EpsilonSVR(Objective):
    """Support vector regression without bias: alpha'K alpha/2 + (C/n) sum (|e| - epsilon)_+.

    Gradient K alpha - (C/n) K psi(e), psi(e) = sign(e) where |e| > epsilon, otherwise 0.

    Attributes:
        epsilon: half width of the tube, >= 0.
        weighting: rkhs z'Kz or identity z'K^2 z, where z = alpha - (C/n) psi.

    Raises:
        ValueError: on a matrix that is not a Gram matrix of distinct inputs, or numbers out of range.
    """

    gram: FloatArray
    C: float
    epsilon: float
    weighting: Weighting = "rkhs"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", objectives.gram_matrix("gram", self.gram))
        objectives.positive("C", self.C)
        if not (np.isfinite(self.epsilon) and self.epsilon >= 0.0):
            raise ValueError(f"epsilon must be finite and >= 0, got {self.epsilon}")
        self.refuse_weighting("rkhs", "identity")

    @property
    def design(self) -> FloatArray:
        return self.gram

    @property
    def weight(self) -> float:
        """C/n, the largest size of a coefficient of the minimiser."""
        return self.C / len(self.gram)

    def score(self, e: FloatArray) -> FloatArray:
        """Return psi(e)."""
        return np.asarray(np.sign(e) * (np.abs(e) > self.epsilon))

    def value(self, y: FloatArray, alpha: FloatArray) -> float:
        excess = np.maximum(np.abs(self.residuals(y, alpha)) - self.epsilon, 0.0)
        return float(0.5 * alpha @ self.gram @ alpha + self.weight * excess.sum())

    def gradient(self, alphas: FloatArray, e: FloatArray) -> FloatArray:
        """Return K alpha - (C/n) K psi(e), a subgradient where some |e| = epsilon."""
        return np.asarray((alphas - self.weight * self.score(e)) @ self.gram)

    @cached_property
    def form(self) -> Form:
        """Z = |F z|^2 with z = alpha - (C/n) psi."""
        values, vectors = spectrum(self.gram)
        root = np.sqrt(values if self.weighting == "rkhs" else values**2)[:, None] * vectors
        return Form(root, self.weight * root, np.empty((0, len(self.gram))))

    def fit(self, y: FloatArray) -> Minimiser:
        """Return the minimiser: LIBSVM, then the equations of its free coefficients.

        The gap is against the dual y'beta - beta'K beta/2 - epsilon |beta|_1, |beta| <= C/n, at beta = alpha.
        """
        outputs = self.check_outputs(y)
        rough = support_vectors(self.gram, outputs, self.weight, self.epsilon)
        exact = polished(self.gram, outputs, self.epsilon, self.weight, rough)
        fits = [self._certified(outputs, alpha) for alpha in (rough, exact)]
        return min(fits, key=lambda fit: fit.gap)

    def _certified(self, y: FloatArray, alpha: FloatArray) -> Minimiser:
        alpha = np.clip(alpha, -self.weight, self.weight)
        primal = self.value(y, alpha)
        dual = y @ alpha - 0.5 * alpha @ self.gram @ alpha - self.epsilon * np.abs(alpha).sum()
        gap = max(float(primal - dual), 0.0)
        return Minimiser(alpha, primal, gap <= _GAP * self.value(y, np.zeros_like(y)), gap)


@dataclass(frozen=True, eq=False)
class KernelLasso(Objective):
    """Kernelised LASSO: |e|^2/2 + penalty |alpha|_1, gradient -Ke + penalty sign(alpha), sign 0 = 0.

    Attributes:
        weighting: identity. K inverse would need inverting K, and there is no Hessian.

    Raises:
        ValueError: on a matrix that is not a Gram matrix of distinct inputs, or a penalty that is not positive.
    """

    gram: FloatArray
    penalty: float
    weighting: Weighting = "identity"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", objectives.gram_matrix("gram", self.gram))
        objectives.positive("penalty", self.penalty)
        self.refuse_weighting("identity")

    @property
    def design(self) -> FloatArray:
        return self.gram

    def lift(self, alphas: FloatArray) -> FloatArray:
        return np.asarray(np.sign(alphas))

    def value(self, y: FloatArray, alpha: FloatArray) -> float:
        e = self.residuals(y, alpha)
        return float(0.5 * e @ e + self.penalty * np.abs(alpha).sum())

    def gradient(self, alphas: FloatArray, e: FloatArray) -> FloatArray:
        """Return -Ke + lambda sign(alpha), a subgradient where a coefficient is 0."""
        return np.asarray(self.penalty * np.sign(alphas) - e @ self.gram)

    @cached_property
    def form(self) -> Form:
        """Z = |lambda V sign(alpha) - Lambda V e|^2 + |the part of lambda sign(alpha) outside V|^2, K = V'Lambda V."""
        values, vectors = spectrum(self.gram)
        outside = np.linalg.svd(vectors)[2][len(values) :]
        return Form(self.penalty * vectors, values[:, None] * vectors, self.penalty * outside)

    def fit(self, y: FloatArray) -> Minimiser:
        """Return the minimiser: coordinate descent, then the equations of its free coefficients.

        The gap is against the dual y'theta - |theta|^2/2, |K theta| <= lambda, at theta = e scaled into that set.
        """
        outputs = self.check_outputs(y)
        rough = lasso(self.gram, outputs, self.penalty)
        exact = polished(self.gram @ self.gram, self.gram @ outputs, self.penalty, np.inf, rough)
        fits = [self._certified(outputs, alpha) for alpha in (rough, exact)]
        return min(fits, key=lambda fit: fit.gap)

    def _certified(self, y: FloatArray, alpha: FloatArray) -> Minimiser:
        e = self.residuals(y, alpha)
        steepest = float(np.max(np.abs(self.gram @ e)))
        theta = e if steepest <= self.penalty else e * (self.penalty / steepest)
        primal = self.value(y, alpha)
        gap = max(float(primal - (y @ theta - 0.5 * theta @ theta)), 0.0)
        return Minimiser(alpha, primal, gap <= _GAP * 0.5 * float(y @ y), gap)
