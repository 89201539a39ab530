"""What log marginal likelihoods of many parameter vectors at once share: batches that fit the cache, failures told.

Equation: Li et al. 2022, Eq. (28)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.multi_output.observed_pairs import CovarianceBatch, ObservedPairs


class ParameterVectors(Protocol):
    """S hyperparameter vectors: a dataclass of arrays whose first axis counts them."""

    def __len__(self) -> int: ...

    def rows(self, part: slice) -> Self:
        """Return some of the vectors."""
        ...


Vectors = TypeVar("Vectors", bound=ParameterVectors)


class BatchedLikelihood(ABC, Generic[Vectors]):
    """Log marginal likelihood of given observations, for some parameter vectors after others."""

    _batch: CovarianceBatch

    def __init__(self, pairs: ObservedPairs, step: int) -> None:
        """Take the observations' pairs and how many vectors make a batch."""
        self._pairs, self._step = pairs, step
        self._allocate(0)

    def value(self, parameters: Vectors) -> FloatArray:
        """Return the log marginal likelihood [S]; -inf where a covariance cannot be factorised or it is not finite."""
        value = np.empty(len(parameters))
        with np.errstate(all="ignore"):
            for part in self._covariances(parameters):
                value[part] = self._batch.likelihoods(part.stop - part.start)
        return np.where(np.isfinite(value), value, -np.inf)

    @abstractmethod
    def _allocate(self, size: int) -> None:
        """Make the batch, and what else is used again, large enough for `size` vectors."""

    @abstractmethod
    def _fill_covariances(self, parameters: Vectors) -> None:
        """Compute the pairs' covariances and, on the diagonal, the variances with noise."""

    def _covariances(self, parameters: Vectors) -> Iterator[slice]:
        """Fill the batch with the covariances of some vectors after others, and yield which."""
        count = len(parameters)
        step = min(self._step, count)
        if step > len(self._batch):
            self._allocate(step)
        for start in range(0, count, step):
            part = slice(start, min(start + step, count))
            self._fill_covariances(parameters.rows(part))
            yield part


def finite(value: FloatArray, gradient: Vectors) -> tuple[FloatArray, Vectors]:
    """Return the values [S], -inf where one or its derivatives are not finite, and the derivatives, zero there."""
    good = np.isfinite(value)
    parts = list(vars(gradient).values())
    for each in parts:
        good &= np.isfinite(each).reshape(len(each), -1).all(axis=1)
    for each in parts:
        each[~good] = 0.0
    return np.where(good, value, -np.inf), gradient
