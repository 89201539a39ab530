"""Objectives that are not smooth: epsilon-insensitive support vector regression and the kernelised LASSO.

Equation: derived, objectives and gradients
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.perturbation import checks
from gpsuite.methods.perturbation.objectives.base import Fit, Form, Objective, Weighting, spectrum
from gpsuite.methods.perturbation.objectives.sparse_solvers import lasso, polished, support_vectors

_GAP = 1e-9
"""A fit has converged when its duality gap is below this share of the objective at zero."""


@dataclass(frozen=True, eq=False)
class EpsilonSVR(Objective):
    """Support vector regression without bias: alpha'K alpha/2 + (C/n) sum (|e| - epsilon)_+.

    Gradient K alpha - (C/n) K psi(e), psi(e) = sign(e) where |e| > epsilon, else 0.

    Attributes:
        gram: K [n, n] of distinct inputs.
        C: weight of the residuals, > 0.
        epsilon: half width of the tube, >= 0.
        weighting: rkhs: z'Kz with z = alpha - (C/n) psi; identity: z'K^2 z.

    Raises:
        ValueError: on a matrix that is not a Gram matrix of distinct inputs, or numbers out of range.
    """

    gram: FloatArray
    C: float
    epsilon: float
    weighting: Weighting = "rkhs"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", checks.gram_matrix("gram", self.gram))
        checks.positive("C", self.C)
        if not (np.isfinite(self.epsilon) and self.epsilon >= 0.0):
            raise ValueError(f"epsilon must be finite and >= 0, got {self.epsilon}")
        self.refuse_weighting("rkhs", "identity")

    @property
    def design(self) -> FloatArray:
        """Phi = K."""
        return self.gram

    @property
    def weight(self) -> float:
        """C/n, the largest size of a coefficient of the minimiser."""
        return self.C / len(self.gram)

    def score(self, e: FloatArray) -> FloatArray:
        """Return psi(e)."""
        return np.asarray(np.sign(e) * (np.abs(e) > self.epsilon))

    def value(self, y: FloatArray, alpha: FloatArray) -> float:
        """Return the objective at alpha."""
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

    def fit(self, y: FloatArray) -> Fit:
        """Return the minimiser: LIBSVM, then the equations of its free coefficients.

        The gap is against the dual y'beta - beta'K beta/2 - epsilon |beta|_1, |beta| <= C/n, at beta = alpha.
        """
        outputs = self.check_outputs(y)
        rough = support_vectors(self.gram, outputs, self.weight, self.epsilon)
        exact = polished(self.gram, outputs, self.epsilon, self.weight, rough)
        fits = [self._certified(outputs, alpha) for alpha in (rough, exact)]
        return min(fits, key=lambda fit: fit.gap)

    def _certified(self, y: FloatArray, alpha: FloatArray) -> Fit:
        alpha = np.clip(alpha, -self.weight, self.weight)
        primal = self.value(y, alpha)
        dual = y @ alpha - 0.5 * alpha @ self.gram @ alpha - self.epsilon * np.abs(alpha).sum()
        gap = max(float(primal - dual), 0.0)
        return Fit(alpha, primal, gap <= _GAP * self.value(y, np.zeros_like(y)), gap)


@dataclass(frozen=True, eq=False)
class KernelLasso(Objective):
    """Kernelised LASSO: |e|^2/2 + penalty |alpha|_1, gradient -Ke + penalty sign(alpha), sign 0 = 0.

    Attributes:
        gram: K [n, n] of distinct inputs.
        penalty: lambda > 0.
        weighting: identity (K inverse cannot be had without inverting K, and there is no Hessian).

    Raises:
        ValueError: on a matrix that is not a Gram matrix of distinct inputs, or a penalty that is not positive.
    """

    gram: FloatArray
    penalty: float
    weighting: Weighting = "identity"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", checks.gram_matrix("gram", self.gram))
        checks.positive("penalty", self.penalty)
        self.refuse_weighting("identity")

    @property
    def design(self) -> FloatArray:
        """Phi = K."""
        return self.gram

    def lift(self, alphas: FloatArray) -> FloatArray:
        """Return the signs, which the gradient is linear in."""
        return np.asarray(np.sign(alphas))

    def value(self, y: FloatArray, alpha: FloatArray) -> float:
        """Return the objective at alpha."""
        e = self.residuals(y, alpha)
        return float(0.5 * e @ e + self.penalty * np.abs(alpha).sum())

    def gradient(self, alphas: FloatArray, e: FloatArray) -> FloatArray:
        """Return -Ke + lambda sign(alpha), a subgradient where a coefficient is 0."""
        return np.asarray(self.penalty * np.sign(alphas) - e @ self.gram)

    @cached_property
    def form(self) -> Form:
        """Z = |lambda V sign(alpha) - Lambda V e|^2 + |what of lambda sign(alpha) lies outside V|^2, K = V'Lambda V."""
        values, vectors = spectrum(self.gram)
        outside = np.linalg.svd(vectors)[2][len(values) :]
        return Form(self.penalty * vectors, values[:, None] * vectors, self.penalty * outside)

    def fit(self, y: FloatArray) -> Fit:
        """Return the minimiser: coordinate descent, then the equations of its free coefficients.

        The gap is against the dual y'theta - |theta|^2/2, |K theta| <= lambda, at theta = e scaled into that set.
        """
        outputs = self.check_outputs(y)
        rough = lasso(self.gram, outputs, self.penalty)
        exact = polished(self.gram @ self.gram, self.gram @ outputs, self.penalty, np.inf, rough)
        fits = [self._certified(outputs, alpha) for alpha in (rough, exact)]
        return min(fits, key=lambda fit: fit.gap)

    def _certified(self, y: FloatArray, alpha: FloatArray) -> Fit:
        e = self.residuals(y, alpha)
        steepest = float(np.max(np.abs(self.gram @ e)))
        theta = e if steepest <= self.penalty else e * (self.penalty / steepest)
        primal = self.value(y, alpha)
        gap = max(float(primal - (y @ theta - 0.5 * theta @ theta)), 0.0)
        return Fit(alpha, primal, gap <= _GAP * 0.5 * float(y @ y), gap)
