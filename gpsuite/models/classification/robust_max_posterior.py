"""Posterior with the robust-max likelihood: independent latent functions, one of which is the largest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.robust_max import largest_probabilities, predictive_probabilities

QUADRATURE = 1e-9
"""Stated error of a probability to be the largest: a hundred times what was measured."""
SMALLEST = 1e-12  # of a variance, per unit s: below it rounding decides


@dataclass(frozen=True, eq=False)
class RobustMaxPosterior(MultiClassPosterior):
    """C independent latent functions with one kernel; class probabilities by the robust-max likelihood.

    Attributes:
        epsilon: probability of a label that is not the largest latent value's, shared by the C - 1 others.

    Raises:
        ValueError: as `MultiClassPosterior`, unless 0 < epsilon < (C - 1) / C, or if the functions are correlated.
    """

    epsilon: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        C = self.n_classes
        if not 0.0 < self.epsilon < (C - 1) / C:
            raise ValueError(f"epsilon={self.epsilon}: must be between 0 and {(C - 1) / C:g}")
        if (np.count_nonzero(np.abs(self.root).max(axis=2, initial=0.0), axis=1) > 1).any():
            raise ValueError("the latent functions must be independent")

    def probabilities(self, Xnew: FloatArray) -> FloatArray:
        """Return the class probabilities [B, C] at inputs [B, D], each within `QUADRATURE`.

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        mean, covariance = self.latent(Xnew)
        variance = np.maximum(np.einsum("bcc->bc", covariance), SMALLEST * self.variance)
        return predictive_probabilities(largest_probabilities(mean, variance), self.epsilon)
