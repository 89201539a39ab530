"""A model that was trained elsewhere: its latent posterior, and the differences of its library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.latent import LatentPosterior

NO_SHIFT = "there is no certificate format for a classifier with a constant mean function or with white noise"


@dataclass(frozen=True, eq=False)
class ShiftedPosterior(GPCPosterior):
    """The posterior of f + offset + noise: a constant mean function, and white noise in the kernel.

    Attributes:
        offset: number added to the mean.
        spread: number added to the variance, >= 0.
    """

    offset: float = 0.0
    spread: float = 0.0

    def latent(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, variance = super().latent(Xnew)
        return mean + self.offset, variance + self.spread

    def latent_with_gradient(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        mean, variance, d_mean, d_variance = super().latent_with_gradient(Xnew)
        return mean + self.offset, variance + self.spread, d_mean, d_variance


@dataclass(frozen=True, eq=False, repr=False)
class OneVsRestPosterior:
    """C classifiers of two classes each with their own kernels: class c against all others.

    A point's class is the one with the largest probability. Probabilities are divided by their sum.

    Attributes:
        parts: classifiers, one for every class.
        link_error: largest difference of the library's probability of a part from the exact one.
    """

    parts: tuple[GPCPosterior, ...]
    link_error: float

    @property
    def n_classes(self) -> int:
        return len(self.parts)

    def probabilities(self, Xnew: FloatArray) -> FloatArray:
        """Return the class probabilities [B, C]."""
        found = np.stack([part.probability(Xnew) for part in self.parts], axis=1)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def mean_with_gradient(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the latent means [B, C] and their gradients in the inputs, [B, C, D]."""
        found = [part.latent_with_gradient(Xnew) for part in self.parts]
        return np.stack([each[0] for each in found], axis=1), np.stack([each[2] for each in found], axis=1)


def latent_moments(posterior: Any, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return latent means and variances of a `Posterior` at points [B, d], [B] or of several functions [B, L]."""
    if isinstance(posterior, OneVsRestPosterior):
        found = [part.latent(points) for part in posterior.parts]
        mean, variance = (np.stack([each[side] for each in found], axis=1) for side in (0, 1))
        return mean, variance
    mean, variance = posterior.latent(points)
    return mean, np.einsum("bcc->bc", variance) if variance.ndim == 3 else variance


Posterior = GPCPosterior | MultiClassPosterior | OneVsRestPosterior | LatentPosterior
Latent = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""From inputs [B, D] to latent means and variances, [B] or [B, L]."""


@dataclass(frozen=True, eq=False, repr=False)
class GivenModel:
    """A model that was trained elsewhere.

    Attributes:
        posterior: a `Posterior` of the inputs in `columns`. A regression has a plain `LatentPosterior`.
        inputs: number of inputs of the model, D.
        columns: inputs that its kernel reads, [d].
        labels: names of the classes, none for a regression.
        about: sentence about the certified quantity.
        own: latent means and variances at inputs [B, D] by the library that trained it, for comparison.
        link_error: largest difference of the library's class probabilities from the certified ones.
        uncertified: reason why no certificate can be saved. Empty if one can.
        noise: noise variance of a regression's observations.
        scale: scale of a regression's target: prediction = offset + scale mean.
        offset: offset of the target.
        targets: of the training rows of an exact regression, as its posterior takes them, [N]. None of other models.
    """

    posterior: Any
    inputs: int
    columns: IntArray
    labels: tuple[Any, ...]
    about: str
    own: Latent
    link_error: float = 0.0
    uncertified: str = ""
    noise: float = 1.0
    scale: float = 1.0
    offset: float = 0.0
    targets: FloatArray | None = None

    @cached_property
    def several(self) -> bool:
        """Whether there is more than one latent function."""
        return isinstance(self.posterior, MultiClassPosterior | OneVsRestPosterior)

    def in_units(self, scale: FloatArray, offset: FloatArray) -> GivenModel:
        """Return the model of inputs z [D]. The original inputs are (z - offset) / scale, scale > 0."""
        return replace(self, posterior=in_units(self.posterior, scale[self.columns], offset[self.columns]))


def in_units(posterior: Posterior, scale: FloatArray, offset: FloatArray) -> Posterior:
    """Return the posterior of inputs z with x = (z - offset) / scale. A stationary kernel stays stationary."""
    if isinstance(posterior, OneVsRestPosterior):
        return replace(posterior, parts=tuple(_moved(part, scale, offset) for part in posterior.parts))
    moved: Posterior = _moved(posterior, scale, offset)
    return moved


def _moved(posterior: Any, scale: FloatArray, offset: FloatArray) -> Any:
    return replace(posterior, X=posterior.X * scale + offset, lengthscales=posterior.lengthscales * scale)


def shifted(posterior: GPCPosterior, offset: float, spread: float) -> GPCPosterior:
    """Return the posterior with a constant mean and white noise, or itself if both are zero."""
    if not (offset or spread):
        return posterior
    values = {each.name: getattr(posterior, each.name) for each in fields(posterior)}
    return ShiftedPosterior(**values, offset=offset, spread=spread)
