"""The log marginal likelihood as a function of unconstrained hyperparameters, by the chain rule."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.sampling.priors import UnconstrainedPrior

Vectors = TypeVar("Vectors")


class ConstrainedModel(Protocol[Vectors]):
    """A model whose hyperparameters have names and constraints."""

    @property
    def prior(self) -> UnconstrainedPrior:
        """The prior of u, and the constraints."""
        ...

    def constrain(self, u: FloatArray) -> Vectors:
        """Return the hyperparameters of u [S, d] by name."""
        ...

    def join(self, parameters: Vectors) -> FloatArray:
        """Return hyperparameters, or derivatives with respect to them, as one array [S, d] in the order of u."""
        ...


class ConstrainedLikelihood(Protocol[Vectors]):
    """Log marginal likelihood of given observations as a function of the constrained parameters."""

    def value(self, parameters: Vectors) -> FloatArray:
        """Return the log marginal likelihood [S]."""
        ...

    def value_and_gradient(self, parameters: Vectors) -> tuple[FloatArray, Vectors]:
        """Return the log marginal likelihood [S] and its derivatives."""
        ...


class UnconstrainedLikelihood(Generic[Vectors]):
    """The log marginal likelihood as a function of u; -inf and zero where not finite, zero without observations."""

    def __init__(
        self, model: ConstrainedModel[Vectors], of_parameters: ConstrainedLikelihood[Vectors] | None
    ) -> None:
        """Take the model and its likelihood, None without observations."""
        self._model, self._of_parameters = model, of_parameters

    def value(self, u: FloatArray) -> FloatArray:
        """Return the log marginal likelihood [S] at u [S, d]."""
        if self._of_parameters is None:
            return np.zeros(len(u))
        with np.errstate(all="ignore"):
            value = self._of_parameters.value(self._model.constrain(u))
        return np.where(np.isfinite(value), value, -np.inf)

    def value_and_gradient(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return value [S] and gradient [S, d]."""
        if self._of_parameters is None:
            return np.zeros(len(u)), np.zeros_like(u)
        with np.errstate(all="ignore"):  # a diverged particle may be anywhere
            value, slopes = self._of_parameters.value_and_gradient(self._model.constrain(u))
            gradient = self._model.join(slopes) * self._model.prior.derivative(u)
        good = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
        return np.where(good, value, -np.inf), np.where(good[:, None], gradient, 0.0)
