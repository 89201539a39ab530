"""Models as convex objectives with residual gradients: the quadratic models, and the names of all.

Equation: derived, objectives and gradients
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from gpsuite.arrays import FloatArray
from gpsuite.methods.perturbation import objectives
from gpsuite.methods.perturbation.nonsmooth import EpsilonSVR, KernelLasso
from gpsuite.methods.perturbation.objectives import (
    Form,
    Minimiser,
    Objective,
    QuadraticObjective,
    Weighting,
    small_form,
    spectrum,
)

__all__ = [
    "EpsilonSVR",
    "Form",
    "KernelLSSVM",
    "KernelLasso",
    "KernelRidge",
    "LinearLSSVM",
    "Minimiser",
    "Objective",
    "QuadraticObjective",
    "SparseKernelRidge",
    "Weighting",
]


class _Ridge(QuadraticObjective):
    """mean e^2 + penalty alpha'M alpha, with M [p, p] the Gram matrix of the kernel's centres. P = 2 lambda M."""

    penalty: float

    @property
    @abstractmethod
    def metric(self) -> FloatArray: ...

    @property
    def P(self) -> FloatArray:
        return 2.0 * self.penalty * self.metric

    def value(self, y: FloatArray, alpha: FloatArray) -> float:
        e = self.residuals(y, alpha)
        return float(np.mean(e**2) + self.penalty * alpha @ self.metric @ alpha)


@dataclass(frozen=True, eq=False)
class KernelRidge(_Ridge):
    """Kernel ridge regression: mean e^2 + penalty alpha'K alpha, f = sum_j alpha_j k(., x_j).

    Attributes:
        weighting: hessian z'K((2/n)K + 2 lambda I)^-1 z, rkhs z'Kz or identity z'K^2 z, where z = 2 lambda
            alpha - (2/n) e.

    Raises:
        ValueError: on a matrix that is not a Gram matrix of distinct inputs, or a penalty that is not positive.
    """

    gram: FloatArray
    penalty: float
    weighting: Weighting = "hessian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", objectives.gram_matrix("gram", self.gram))
        objectives.positive("penalty", self.penalty)
        self.refuse_weighting("hessian", "rkhs", "identity")

    @property
    def design(self) -> FloatArray:
        return self.gram

    @property
    def metric(self) -> FloatArray:
        return self.gram

    @property
    def T(self) -> FloatArray:
        return 2.0 / len(self.gram) * self.gram

    @cached_property
    def form(self) -> Form:
        """Z = |F z|^2 with z = 2 lambda alpha - (2/n) e."""
        n = len(self.gram)
        values, vectors = spectrum(self.gram)
        scale = {"hessian": values / (2.0 / n * values + 2.0 * self.penalty), "rkhs": values, "identity": values**2}[
            self.weighting
        ]
        root = np.sqrt(scale)[:, None] * vectors
        return Form(2.0 * self.penalty * root, 2.0 / n * root, np.empty((0, n)))

    def solve(self, y: FloatArray) -> FloatArray:
        n = len(y)
        return np.asarray(cho_solve(cho_factor(self.gram + n * self.penalty * np.eye(n)), y))


@dataclass(frozen=True, eq=False)
class SparseKernelRidge(_Ridge):
    """Kernel ridge regression with few centres: mean e^2 + penalty alpha'K_zz alpha, f = sum_j alpha_j k(., c_j).

    This model is not in the paper. Its regions can be bounded, unlike those with one coefficient per datum.

    Attributes:
        cross: K_xz [n, p] of full column rank.
        centres_gram: K_zz [p, p].
        weighting: hessian, rkhs (K_zz inverse) or identity.

    Raises:
        ValueError: on arrays that do not fit each other, a rank-deficient design, or a penalty that is not positive.
    """

    cross: FloatArray
    centres_gram: FloatArray
    penalty: float
    weighting: Weighting = "hessian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cross", objectives.finite("cross", self.cross, 2))
        object.__setattr__(self, "centres_gram", objectives.finite("centres_gram", self.centres_gram, 2))
        objectives.enough_rows(len(self.cross))
        if self.centres_gram.shape != (self.cross.shape[1],) * 2:
            raise ValueError(f"centres_gram has shape {self.centres_gram.shape} for {self.cross.shape[1]} centres")
        objectives.positive("penalty", self.penalty)
        objectives.full_column_rank("the design of the centres", self.cross)
        self.refuse_weighting("hessian", "rkhs", "identity")

    @property
    def design(self) -> FloatArray:
        return self.cross

    @property
    def metric(self) -> FloatArray:
        return self.centres_gram

    @property
    def T(self) -> FloatArray:
        return 2.0 / len(self.cross) * self.cross.T

    @cached_property
    def form(self) -> Form:
        """Z = |F (P alpha - T e)|^2, F from a Cholesky factor of H or K_zz."""
        metric = {"hessian": self.hessian, "rkhs": self.centres_gram, "identity": None}[self.weighting]
        return small_form(self.P, self.T, metric)

    def solve(self, y: FloatArray) -> FloatArray:
        return np.asarray(cho_solve(cho_factor(self.hessian), self.T @ y))


@dataclass(frozen=True, eq=False)
class LinearLSSVM(QuadraticObjective):
    """Linear least-squares SVM: |w|^2/2 + (C/2)|e|^2, alpha = (b, w), Phi = [1 X]. Without bias alpha = w.

    For labels y = +-1 the residual e is the margin's error up to its sign, since y^2 = 1.

    Attributes:
        inputs: X [n, D].
        bias: whether there is an unpenalised constant.
        weighting: hessian or identity.

    Raises:
        ValueError: on non-finite inputs, a rank-deficient design, or C that is not positive.
    """

    inputs: FloatArray
    C: float
    bias: bool = True
    classification: bool = False
    weighting: Weighting = "hessian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", objectives.finite("inputs", self.inputs, 2))
        objectives.enough_rows(len(self.inputs))
        objectives.positive("C", self.C)
        objectives.full_column_rank("the linear design", self.design)
        self.refuse_weighting("hessian", "identity")

    @cached_property
    def design(self) -> FloatArray:
        return np.column_stack([np.ones(len(self.inputs)), self.inputs]) if self.bias else self.inputs

    @property
    def P(self) -> FloatArray:
        penalised = np.eye(self.design.shape[1])
        penalised[0, 0] = 0.0 if self.bias else 1.0
        return penalised

    @property
    def T(self) -> FloatArray:
        return self.C * self.design.T

    def value(self, y: FloatArray, alpha: FloatArray) -> float:
        e = self.residuals(y, alpha)
        return float(0.5 * alpha @ self.P @ alpha + 0.5 * self.C * e @ e)

    @cached_property
    def form(self) -> Form:
        """Z = |F (P alpha - T e)|^2, F from a Cholesky factor of H."""
        return small_form(self.P, self.T, self.hessian if self.weighting == "hessian" else None)

    def solve(self, y: FloatArray) -> FloatArray:
        return np.asarray(cho_solve(cho_factor(self.hessian), self.T @ y))


@dataclass(frozen=True, eq=False)
class KernelLSSVM(QuadraticObjective):
    """Kernel least-squares SVM: a'Ka/2 + (C/2)|e|^2 with alpha = (b, a), f = b + sum_j a_j k(., x_j).

    Attributes:
        weighting: hessian, rkhs (the identity for the bias, K inverse for the others) or identity.

    Raises:
        ValueError: on a matrix that is not a Gram matrix of distinct inputs, or C that is not positive.
    """

    gram: FloatArray
    C: float
    classification: bool = False
    weighting: Weighting = "hessian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", objectives.gram_matrix("gram", self.gram))
        objectives.positive("C", self.C)
        self.refuse_weighting("hessian", "rkhs", "identity")

    @cached_property
    def design(self) -> FloatArray:
        return np.column_stack([np.ones(len(self.gram)), self.gram])

    @property
    def P(self) -> FloatArray:
        n = len(self.gram)
        penalised = np.zeros((n + 1, n + 1))
        penalised[1:, 1:] = self.gram
        return penalised

    @property
    def T(self) -> FloatArray:
        return self.C * self.design.T

    def value(self, y: FloatArray, alpha: FloatArray) -> float:
        e = self.residuals(y, alpha)
        return float(0.5 * alpha[1:] @ self.gram @ alpha[1:] + 0.5 * self.C * e @ e)

    @cached_property
    def form(self) -> Form:
        """Z with g = (-C 1'e, Kz), z = a - Ce.

        With the inverse Hessian Z = z'Wz + (g_0 - C 1'Wz)^2 / S. Here W = K(I + CK)^-1 and S = C 1'(I + CK)^-1 1. S is
        the Schur complement of the block for a, with K taken out on both sides.
        """
        n, C = len(self.gram), self.C
        values, vectors = spectrum(self.gram)
        if self.weighting == "hessian":
            h = np.asarray(cho_solve(cho_factor(np.eye(n) + C * self.gram), np.ones(n)))
            scale, S = values / (1.0 + C * values), C * h.sum()
            bias_slope, bias_pull = -C * (self.gram @ h) / np.sqrt(S), C * h / np.sqrt(S)
        else:
            scale = values if self.weighting == "rkhs" else values**2
            bias_slope, bias_pull = np.zeros(n), np.full(n, C)
        root = np.sqrt(scale)[:, None] * vectors
        slope = np.column_stack([np.zeros(len(root) + 1), np.vstack([bias_slope, root])])
        return Form(slope, np.vstack([bias_pull, C * root]), np.empty((0, n + 1)))

    def solve(self, y: FloatArray) -> FloatArray:
        """Return (b, a) with a = Ce and 1'a = 0, from (K + I/C) a = y - b."""
        factor = cho_factor(self.gram + np.eye(len(y)) / self.C)
        ones = np.asarray(cho_solve(factor, np.ones(len(y))))
        b = ones @ y / ones.sum()
        return np.append(b, cho_solve(factor, y - b))
