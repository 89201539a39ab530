"""The ball of functions with a known RKHS norm: it bounds every region and reaches beyond the data.

A region speaks of the ideal representation f_0, equal to the true f_* at the data only. If |f_*|_H <= B, then
alpha_*'K alpha_* <= B^2 and |f_* - f_0|(x) <= sqrt(k(x,x) - k_x'K^-1 k_x) sqrt(B^2 - alpha_*'K alpha_*).

Equation: derived, ideal representation and norm ball
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.perturbation.checks import finite, positive
from gpsuite.methods.perturbation.objectives.base import spectrum


@dataclass(frozen=True, eq=False)
class NormBall:
    """Coefficients (b, a) with a'K a <= B^2.

    Attributes:
        gram: K, shape [k, k]: of the inputs, or of the centres of a sparse model.
        bound: B > 0.
        free: number of leading coefficients outside the norm: 1 with a bias, else 0; p = free + k.

    Raises:
        ValueError: if K is not a finite square matrix or B is not positive and finite.
    """

    gram: FloatArray
    bound: float
    free: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", finite("gram", self.gram, 2))
        if self.gram.shape[0] != self.gram.shape[1]:
            raise ValueError(f"gram must be square, got shape {self.gram.shape}")
        positive("bound", self.bound)

    def norms(self, alphas: FloatArray) -> FloatArray:
        """Return sqrt(a'K a) for rows (b, a) [J, p], shape [J]."""
        kernel = alphas[:, self.free :]
        squares = np.einsum("jk,jk->j", kernel @ self.gram, kernel)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def contains(self, alphas: FloatArray) -> BoolArray:
        """Return whether each row of `alphas` [J, p] lies in the ball, shape [J]."""
        return np.asarray(self.norms(alphas) <= self.bound)

    def steps(self, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the largest t with centre + t direction in the ball, shape [J]; inf along a direction without norm.

        Raises:
            ValueError: if the centre [p] is outside: the rays would not start in the set.
        """
        norm = float(self.norms(centre[None])[0])
        if not norm <= self.bound:
            raise ValueError(f"the estimate's RKHS norm {norm:g} exceeds the bound B={self.bound:g}")
        along = directions[:, self.free :]
        a = self.norms(directions) ** 2
        b = along @ self.gram @ centre[self.free :]
        c = (norm - self.bound) * (norm + self.bound)
        root = np.sqrt(b**2 - a * c)
        bounded = a > 0.0
        safe = np.where(bounded, a, 1.0)
        # the form without cancellation on either side; where b > 0, so is b + root
        near = -c / np.where(b > 0.0, b + root, 1.0)
        return np.where(bounded, np.where(b > 0.0, near, (root - b) / safe), np.inf)

    @cached_property
    def basis(self) -> FloatArray:
        """W [p, free + r]: alpha = W (b, c) is in the ball iff |c| <= B; directions of K below rounding left out."""
        values, vectors = spectrum(self.gram)
        W = np.zeros((self.free + len(self.gram), self.free + len(values)))
        W[: self.free, : self.free] = np.eye(self.free)
        W[self.free :, self.free :] = vectors.T / np.sqrt(values)
        return W

    def powers(self, features: FloatArray, variances: FloatArray) -> FloatArray:
        """Return sqrt(k(x,x) - k_x'K^-1 k_x), shape [J]: the largest f(x) with |f|_H = 1 and f = 0 at the data.

        The directions of K below rounding are left out, which can only enlarge it.

        Args:
            features: rows (1, k_x) or k_x, shape [J, p].
            variances: k(x, x), shape [J].
        """
        turned = features @ self.basis[:, self.free :]
        rest = variances - np.einsum("jr,jr->j", turned, turned)
        rounding = 8.0 * np.finfo(np.float64).eps * len(self.gram) * variances
        return np.asarray(np.sqrt(np.maximum(rest, 0.0) + rounding))
