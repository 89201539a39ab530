"""A likelihood that is not finite in a part of the space: what a failing factorisation looks like to a sampler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.arrays import Array


@dataclass(frozen=True)
class HalfSpace:
    """Value 0 where u_0 > edge, else `outside` (-inf or NaN)."""

    edge: float
    outside: float = -np.inf

    def value(self, u: Array) -> Array:
        """Return 0 or what stands outside, [S]."""
        return np.where(u[:, 0] > self.edge, 0.0, self.outside)

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """Return the value [S] and a gradient [S, d] that is zero or not finite."""
        value = self.value(u)
        return value, np.broadcast_to(np.where(np.isnan(value), np.nan, 0.0)[:, None], u.shape)
