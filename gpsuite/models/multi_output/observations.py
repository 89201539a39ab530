"""What the multi-output models share: observed (x, p) pairs, and what samplers and predictions ask of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpsuite.arrays import FloatArray, IntArray


class ContradictionError(ValueError):
    """One output has two different values at one input."""


@dataclass(frozen=True, eq=False)
class Observations:
    """Measured values of single outputs, in the order of measuring; only what was observed is kept.

    Attributes:
        X: inputs [N, D], one row per value: an input of which two outputs were measured stands twice.
        p: which output each value belongs to, counted from 0, [N].
        y: values [N].
    """

    X: FloatArray
    p: IntArray
    y: FloatArray

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.p.shape != (len(self.X),) or self.y.shape != (len(self.X),):
            raise ValueError(
                f"X {self.X.shape}, p {self.p.shape}, y {self.y.shape}: must be [N, D], [N] and [N]"
            )
        if not (np.isfinite(self.X).all() and np.isfinite(self.y).all()):
            raise ValueError("X and y must be finite; leave out what was not observed")

    def __len__(self) -> int:
        """Number N of observed values."""
        return len(self.y)

    @classmethod
    def from_table(cls, X: FloatArray, Y: FloatArray) -> Observations:
        """Read a table with gaps.

        Args:
            X: inputs [N, D].
            Y: outputs [N, P]; NaN where an output was not observed.

        Raises:
            ValueError: if X and Y are not tables with as many rows.
            ContradictionError: if one (x, p) has two different values.
        """
        if np.ndim(X) != 2 or np.ndim(Y) != 2 or len(X) != len(Y):
            raise ValueError(f"X [N, D] and Y [N, P] are needed, got {np.shape(X)} and {np.shape(Y)}")
        row, p = np.nonzero(~np.isnan(Y))
        found = cls(X[row], p.astype(np.int64), Y[row, p])
        found.check_consistent()
        return found

    def extended(self, X: FloatArray, p: IntArray, y: FloatArray) -> Observations:
        """Return these and further observations [n, D], [n], [n], in this order."""
        return Observations(
            np.concatenate([self.X, X]), np.concatenate([self.p, p]), np.concatenate([self.y, y])
        )

    def check_consistent(self) -> None:
        """Raise `ContradictionError` if one (x, p) has two different values."""
        pairs = np.column_stack([self.X, self.p])
        order = np.lexsort(pairs.T)
        same = (pairs[order][1:] == pairs[order][:-1]).all(axis=1)
        for first, second in zip(order[:-1][same], order[1:][same], strict=True):
            if self.y[first] != self.y[second]:
                raise ContradictionError(
                    f"output {self.p[first]} at {self.X[first].tolist()} has two values: "
                    f"{self.y[first]:g} and {self.y[second]:g}"
                )


class Likelihood(Protocol):
    """Log marginal likelihood of given observations for many hyperparameter vectors at once."""

    def value(self, u: FloatArray) -> FloatArray:
        """Return the log marginal likelihood [S] at u [S, d]; -inf where a covariance cannot be factorised."""
        ...

    def value_and_gradient(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return value [S] and gradient [S, d]; -inf and a zero gradient where the factorisation fails."""
        ...


class HyperparameterModel(Protocol):
    """What samplers and searches ask of a model: prior and likelihood of unconstrained hyperparameters u [S, d].

    u holds S hyperparameter vectors (particles, draws or one optimum); every method treats all at once.
    """

    @property
    def n_outputs(self) -> int:
        """Number P of outputs."""
        ...

    @property
    def n_parameters(self) -> int:
        """Length d of u."""
        ...

    def draw_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return n draws of u from the prior, [n, d]."""
        ...

    def log_prior(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log prior + log |Jacobian| [S] and its gradient with respect to u [S, d]."""
        ...

    def likelihood(self, observations: Observations) -> Likelihood:
        """Return the log marginal likelihood of the observations as a function of u."""
        ...

    def prior_covariance(self, u: FloatArray) -> FloatArray:
        """Return cov(f_p(x), f_q(x)) at one input, the same everywhere, [S, P, P]."""
        ...

    def noise(self, u: FloatArray) -> FloatArray:
        """Return the noise variances [S, P]."""
        ...


class MultiOutputModel(HyperparameterModel, Protocol):
    """A Gaussian process of P outputs with zero mean, as a function of unconstrained hyperparameters u [S, d]."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d constrained parameters, in the order of u."""
        ...

    def covariance(
        self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray, p2: IntArray
    ) -> FloatArray:
        """Return cov(f_p(x), f_p2(x2)) between listed pairs, [S, N, N2]."""
        ...

    def cross_covariance(self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray) -> FloatArray:
        """Return cov(f_p(x), f_q(x2)) for every output q, [S, N, N2, P]; what all outputs share is computed once."""
        ...
