"""Posterior of a binary Gaussian process classifier in the form that prediction and certification need."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.links import Link
from gpsuite.models.latent import SMALLEST_VARIANCE, LatentPosterior

__all__ = ["SMALLEST_VARIANCE", "GPCPosterior"]


@dataclass(frozen=True, eq=False)
class GPCPosterior(LatentPosterior):
    """Gaussian latent posterior and the link to the class probability; fields of `LatentPosterior` first.

    Attributes:
        link: class probability from the latent value.
    """

    link: Link

    def probability(self, Xnew: FloatArray) -> FloatArray:
        """Return p(y=1|x) [B], the expectation of the link under the latent posterior.

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        return self.link.probability(*self.latent(Xnew))

    def probability_with_gradient(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return p(y=1|x) [B] and its gradient in the inputs [B, D].

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        mean, variance, d_mean, d_variance = self.latent_with_gradient(Xnew)
        by_mean, by_variance = self.link.probability_gradient(mean, variance)
        gradient = by_mean[:, None] * d_mean + by_variance[:, None] * d_variance
        return self.link.probability(mean, variance), gradient
