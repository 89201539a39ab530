"""C independent Gaussian random elements Q_j = N(m_Qj, r_j) with one Gaussian prior N(m_P, k) for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.models.random_elements.basis import InducingBasis
from gpsuite.models.random_elements.kernels import VariationalKernel
from gpsuite.models.random_elements.means import VariationalMean

_ROWS = 1000


@dataclass(frozen=True, eq=False)
class GaussianElement:
    """Variational measures beside their common prior.

    Attributes:
        prior_mean: the constant m_P.
        prior_kernel: k; its parameters are not trained.
        mean: m_Q.
        kernel: r.
        basis: inducing features that mean or kernel use, or None.
        inputs: D.
    """

    prior_mean: float
    prior_kernel: gpflow.kernels.Kernel
    mean: VariationalMean
    kernel: VariationalKernel
    basis: InducingBasis | None
    inputs: int

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        return [*self.mean.variables, *self.kernel.variables]

    def moments(self, X: Any, chosen: int = 0) -> tuple[Any, Any, Any]:
        """Return m_Q(X) [N, C], r(x, x) [N, C] and r over the first `chosen` rows [C, S, S], tensors."""
        features = self.basis.features(X) if self.basis is not None else None
        return self.mean(X, features), *self.kernel.evaluate(X, features, chosen)

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the latent mean [N, C] and variance [N, C] as arrays, in blocks of rows.

        Raises:
            ValueError: if X is not finite or not of shape [N, D].
            ArithmeticError: if a prediction is not finite.
        """
        X = checked_inputs(X, self.inputs)
        parts = [self.moments(tf.constant(X[at : at + _ROWS]))[:2] for at in range(0, len(X), _ROWS)]
        mean, variance = (np.concatenate([part[i].numpy() for part in parts]) for i in (0, 1))
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            raise ArithmeticError("the latent prediction is not finite")
        return mean, variance


def checked_inputs(X: FloatArray, inputs: int) -> FloatArray:
    """Return inputs as float64 [N, D].

    Raises:
        ValueError: if their shape is another, there is no row, or a value is not finite.
    """
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != inputs or len(X) == 0:
        raise ValueError(f"inputs [N, {inputs}] are needed, N >= 1, got shape {X.shape}")
    bad = np.argwhere(~np.isfinite(X))
    if bad.size:
        raise ValueError(f"X[{bad[0][0]}, {bad[0][1]}] is {X[tuple(bad[0])]}; all inputs must be finite")
    return X
