"""What the measured safety values support: predictions that are not carried far beyond them.

Measured in a small region, a safety value that hardly varies there looks like a smooth function of large size: the
posterior of its hyperparameters then follows the prior, and its level is carried far out. The guard leaves inference
alone and changes what predicts: no hyperparameter vector is surer than the distance to the limit and the extent of
the measured inputs allow. Its constants were chosen by experiment, on made-up functions; they prove nothing.

Equation: derived, guard of the safety model
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.active_learning.safety import (
    SafetyLimit,
    mixture_probability,
    moment_matched_probability,
)
from gpsuite.models.multi_output.coregionalization_likelihood import Parameters
from gpsuite.models.multi_output.latent_kernels import LatentKernel, squared_distances
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.mixtures import mixture_moments

TOGETHER = 120_000
"""Covariances between measured inputs and candidates computed together: they stay in a core's cache."""

_NOWHERE = 1e-12
"""The range of inputs that are all equal, in the model's units: no other input is near them."""

_EQUAL = 1e-9
"""Singular values differ by rounding if by less than this share of the largest."""


@dataclass(frozen=True)
class SafetyGuard:
    """Bounds on the hyperparameters that predict the safety value, and on how far a proposal reaches.

    Attributes:
        spread: the prior standard deviation is at least this many root mean squares of z - limit.
        extents: along each principal axis of the measured inputs the lengthscale is at most this many times their
            range there.
        thinnest: an axis (or input) along which they extend less than this share of the largest range counts as that
            share.
        step: while the safety value has hardly varied, no input of a proposal lies more than this many measured
            ranges outside its measured range.
        varied: the safety value has hardly varied while its predictions at the measured inputs span less, two of
            their standard deviations deducted, than this share of what separates the worst of them from the limit.

    Raises:
        ValueError: if a number is not positive (step: is negative), or thinnest above 1.
    """

    spread: float = 3.0
    extents: float = 12.0 / math.sqrt(12.0)
    thinnest: float = 0.2
    step: float = 0.15
    varied: float = 0.25

    def __post_init__(self) -> None:
        positive = min(self.spread, self.extents, self.thinnest, self.varied) > 0.0
        if not positive or self.thinnest > 1.0 or not self.step >= 0.0:
            raise ValueError(f"{self}: must be positive, thinnest at most 1, step at least 0")

    def ranges(self, X: FloatArray) -> FloatArray:
        """Return the range of each column of X [N, D], no less than the thinnest allowed, [D]."""
        ranges = np.ptp(X, axis=0)
        return np.asarray(np.maximum(ranges, max(self.thinnest * float(ranges.max()), _NOWHERE)))

    def outside(self, X: FloatArray, candidates: FloatArray) -> FloatArray:
        """Return how many measured ranges candidates [n, D] lie outside the box of the measured X [N, D], [n]."""
        beyond = np.maximum(X.min(axis=0) - candidates, candidates - X.max(axis=0))
        return np.asarray(np.linalg.norm(np.maximum(beyond, 0.0) / self.ranges(X), axis=1))

    def hardly_varied(self, mean: FloatArray, variance: FloatArray, limit: SafetyLimit) -> bool:
        """Whether the safety value has hardly varied, by its predicted moments [N] at the measured inputs."""
        margin = mean - limit.value if limit.side == "above" else limit.value - mean
        seen = np.ptp(margin) - 2.0 * np.sqrt(variance).mean()
        return bool(seen < self.varied * margin.min())


def principal_axes(X: FloatArray) -> FloatArray:
    """Return the D principal axes of inputs [N, D] as columns, [D, D], also if there are fewer inputs than axes.

    Inputs that vary equally along several axes, as those of a factorial design do, leave them undetermined: taken are
    then those nearest to the inputs' own axes, so that neither rounding nor the order of the inputs chooses.
    """
    _, found, rows = np.linalg.svd(X - X.mean(axis=0), full_matrices=True)
    axes, varied = np.ascontiguousarray(rows.T), found > _EQUAL * found[0]
    ends = np.flatnonzero(np.diff(found[varied]) < -_EQUAL * found[0]) + 1
    for equal in np.split(np.flatnonzero(varied), ends):
        if len(equal) > 1:
            left = axes[:, equal] @ axes[:, equal].T
            for axis in equal:
                lengths = np.linalg.norm(left, axis=0)
                nearest = np.argmax(lengths > lengths.max() - _EQUAL)  # the first of equal ones
                axes[:, axis] = left[:, nearest] / lengths[nearest]
                left -= np.outer(axes[:, axis], axes[:, axis] @ left)
    return axes


class SafetyPrediction:
    """Predictions of the safety value by weighted hyperparameter vectors, within the bounds of a guard if there is one.

    With K = Q diag(l) Q' the kernel of unit variance between the measured inputs, A = Q' K(X, x), t = Q' z and
    g = variance l + noise: mean = (variance t / g)' A, variance = variance - (variance^2 / g)' A^2. Hyperparameter
    vectors with the same lengthscales, those at the bound above all, share Q, l and A.

    Args:
        kernel: one of `LATENT_KERNELS`.
        parameters: of S hyperparameter vectors, one latent process and one output.
        weights: of the vectors, sum 1, [S].
        observations: safety values in the model's units, N.
        limit: in the same units.
        guard: the bounds; None leaves the hyperparameters as they are.
        counted: inputs whose extent bounds the lengthscales, [N', D]; None: all that were measured.
    """

    def __init__(
        self,
        kernel: str,
        parameters: Parameters,
        weights: FloatArray,
        observations: Observations,
        limit: SafetyLimit,
        guard: SafetyGuard | None,
        counted: FloatArray | None = None,
    ) -> None:
        X, D = observations.X, observations.X.shape[1]
        self._kernel, self._weights, self._limit = kernel, weights, limit
        self._variance = parameters.variance[:, 0]
        lengthscales = np.repeat(parameters.lengthscale, D, axis=1)
        counted = X if counted is None else counted
        self._axes = np.eye(D) if guard is None else principal_axes(counted)
        self._X = X @ self._axes
        if guard is not None:
            distance = np.sqrt(np.mean((observations.y - limit.value) ** 2))
            self._variance = np.maximum(self._variance, (guard.spread * distance) ** 2)
            lengthscales = np.minimum(lengthscales, guard.extents * guard.ranges(counted @ self._axes))
        self._lengthscales, group = np.unique(lengthscales, axis=0, return_inverse=True)
        self._parts = []
        for number, each in enumerate(self._lengthscales):
            members = np.flatnonzero(group.reshape(-1) == number)
            values, vectors = np.linalg.eigh(self._unit_kernel(self._X, self._X, each))
            variance = self._variance[members, None]
            g = variance * np.maximum(values, 0.0) + parameters.noise[members]
            self._parts.append((members, vectors, variance * (observations.y @ vectors) / g, variance**2 / g))

    def moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the mixture at inputs [n, D], [n] each."""
        mean, variance = np.empty((2, len(X)))
        for part in self._parts_of(X):
            mean[part], variance[part] = mixture_moments(*self._components(X[part]), self._weights)
        return mean, variance

    def probability(self, X: FloatArray) -> FloatArray:
        """Return the probability of being safe at inputs [n, D], [n].

        The smaller one of the mixture's own and of the normal distribution with its moments (the paper's, Eq. 8): where
        few hyperparameter vectors call a point unsafe that the others call safe by far, the normal's is too large.
        """
        found = np.empty(len(X))
        for part in self._parts_of(X):
            components = (self._limit, *self._components(X[part]), self._weights)
            found[part] = np.minimum(
                moment_matched_probability(*components), mixture_probability(*components)
            )
        return found

    def _parts_of(self, X: FloatArray) -> Iterator[slice]:
        width = max(1, TOGETHER // len(self._X))
        return (slice(begin, begin + width) for begin in range(0, len(X), width))

    def _components(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance by each hyperparameter vector, [S, n] each."""
        turned = X @ self._axes
        mean, variance = np.empty((2, len(self._weights), len(X)))
        for each, (members, vectors, of_mean, of_variance) in zip(
            self._lengthscales, self._parts, strict=True
        ):
            A = vectors.T @ self._unit_kernel(self._X, turned, each)
            mean[members] = of_mean @ A
            variance[members] = self._variance[members, None] - of_variance @ A**2
        return mean, np.maximum(variance, 0.0)

    def _unit_kernel(self, X: FloatArray, X2: FloatArray, lengthscales: FloatArray) -> FloatArray:
        latent = LatentKernel(self._kernel, squared_distances(X / lengthscales, X2 / lengthscales))
        value, slope, work = (np.empty(latent.r.shape) for _ in range(3))
        latent.fill(np.ones(1), value, slope, work)
        return value
