"""Observations of several outputs, isotropic kernels for many lengthscales at once, and interfaces of models.

Equation: Li et al. 2022, Eq. (28)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from scipy.linalg.blas import dsymv, dsyr
from scipy.linalg.lapack import dpotrf, dpotri

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.sampling.priors import UnconstrainedPrior

# Elements per batch of kernel values: the few arrays of a batch fit in the cache of one core.
CHUNK = 60_000
Unconstrained = TypeVar("Unconstrained")


def squared_distances(X: FloatArray, X2: FloatArray) -> FloatArray:
    """Return |x - x2|^2 [N, N2] of inputs [N, D] and [N2, D], exactly zero for equal rows."""
    total = np.zeros((len(X), len(X2)))
    for column in range(X.shape[1]):
        total += (X[:, None, column] - X2[None, :, column]) ** 2
    return total


class LatentKernel:
    """A kernel of unit variance at given distances, as a function of the lengthscale."""

    def __init__(self, name: str, r2: FloatArray) -> None:
        self.r2 = r2
        self.r = np.sqrt(r2)
        self._fill = LATENT_KERNELS[name]

    def fill(self, lengthscale: FloatArray, value: FloatArray, slope: FloatArray, work: FloatArray) -> None:
        """Compute k and l dk/dl into arrays of the shape to which r and the lengthscale broadcast."""
        self._fill(self, lengthscale, value, slope, work)


def _matern52(
    kernel: LatentKernel, lengthscale: FloatArray, value: FloatArray, slope: FloatArray, work: FloatArray
) -> None:
    # k = (1 + a) e + (a^2 / 3) e and l dk/dl = (a^2 / 3) (1 + a) e with a = sqrt(5) r / l, e = exp(-a)
    np.multiply(kernel.r, -math.sqrt(5.0) / lengthscale, out=work)
    np.exp(work, out=value)
    np.multiply(kernel.r2, (5.0 / 3.0) / lengthscale**2, out=slope)
    np.subtract(1.0, work, out=work)
    work *= value
    value *= slope
    value += work
    slope *= work


def _squared_exponential(
    kernel: LatentKernel, lengthscale: FloatArray, value: FloatArray, slope: FloatArray, work: FloatArray
) -> None:
    # k = exp(-b / 2) and l dk/dl = b k with b = r^2 / l^2
    np.multiply(kernel.r2, lengthscale**-2.0, out=slope)
    np.multiply(slope, -0.5, out=work)
    np.exp(work, out=value)
    slope *= value


LATENT_KERNELS: dict[str, Callable[[LatentKernel, FloatArray, FloatArray, FloatArray, FloatArray], None]] = {
    "matern52": _matern52,
    "squared_exponential": _squared_exponential,
}


class ContradictionError(ValueError): ...


@dataclass(frozen=True, eq=False)
class Observations:
    """Measured values of single outputs, in the order of measuring. Only observed values are kept.

    Attributes:
        X: inputs [N, D], one row per value: an input with two measured outputs appears twice.
        p: output of each value, counted from 0, [N].
    """

    X: FloatArray
    p: IntArray
    y: FloatArray

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.p.shape != (len(self.X),) or self.y.shape != (len(self.X),):
            raise ValueError(f"X {self.X.shape}, p {self.p.shape}, y {self.y.shape}: must be [N, D], [N] and [N]")
        if not (np.isfinite(self.X).all() and np.isfinite(self.y).all()):
            raise ValueError("X and y must be finite. Leave out what was not observed")

    def __len__(self) -> int:
        return len(self.y)

    @classmethod
    def from_table(cls, X: FloatArray, Y: FloatArray) -> Observations:
        """Return the observations in inputs X [N, D] and a table Y [N, P] with NaN if an output was not observed.

        Raises:
            ValueError: if X and Y are not tables with the same number of rows.
            ContradictionError: if one (x, p) has two different values.
        """
        if np.ndim(X) != 2 or np.ndim(Y) != 2 or len(X) != len(Y):
            raise ValueError(f"X [N, D] and Y [N, P] are needed, got {np.shape(X)} and {np.shape(Y)}")
        row, p = np.nonzero(~np.isnan(Y))
        found = cls(X[row], p.astype(np.int64), Y[row, p])
        found.check_consistent()
        return found

    def extended(self, X: FloatArray, p: IntArray, y: FloatArray) -> Observations:
        return Observations(np.concatenate([self.X, X]), np.concatenate([self.p, p]), np.concatenate([self.y, y]))

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
        """Return the log marginal likelihood [S] at u [S, d], -inf where a covariance cannot be factorised."""

    def value_and_gradient(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return value [S] and gradient [S, d], -inf and a zero gradient where the factorisation fails."""


class HyperparameterModel(Protocol):
    """Interface that samplers and searches use: prior and likelihood of unconstrained hyperparameters u [S, d].

    u holds S hyperparameter vectors (particles, draws or one optimum). Every method handles all at once.
    """

    @property
    def n_outputs(self) -> int: ...

    @property
    def n_parameters(self) -> int: ...

    def draw_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return n draws of u from the prior, [n, d]."""

    def log_prior(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log prior + log |Jacobian| [S] and its gradient with respect to u [S, d]."""

    def likelihood(self, observations: Observations) -> Likelihood:
        """Return the log marginal likelihood of the observations as a function of u."""

    def prior_covariance(self, u: FloatArray) -> FloatArray:
        """Return cov(f_p(x), f_q(x)) at one input, the same everywhere, [S, P, P]."""

    def noise(self, u: FloatArray) -> FloatArray:
        """Return the noise variances [S, P]."""


class MultiOutputModel(HyperparameterModel, Protocol):
    """A Gaussian process of P outputs with zero mean, as a function of unconstrained hyperparameters u [S, d]."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d constrained parameters, in the order of u."""

    def covariance(self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray, p2: IntArray) -> FloatArray:
        """Return cov(f_p(x), f_p2(x2)) between listed pairs, [S, N, N2]."""

    def cross_covariance(self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray) -> FloatArray:
        """Return cov(f_p(x), f_q(x2)) for every output q, [S, N, N2, P]. Parts that outputs share are computed once."""


# Covariances between observed values, packed by the outputs they belong to, and their factorisation by LAPACK in
# batches.
#
# Let K be the covariance of the N observed values and alpha = K^-1 y. Then log p(y) = -(y' alpha + log det K + N log 2
# pi) / 2 and d log p / dK = -(K^-1 - alpha alpha') / 2 (Rasmussen and Williams 2006, equations 2.30 and 5.9).
class ObservedPairs:
    """The pairs i > j of observed values, sorted by their outputs (p, q), p >= q.

    Attributes:
        y: values, sorted by output [N].
        p: their outputs, ascending [N].
        r2: squared distances of the pairs [M], M = N (N - 1) / 2.
        position: position of each pair in a matrix [N, N] stored by columns, [M].
        classes: (p, q, slice of the pairs of these outputs).
        member: 1 if a value belongs to an output, otherwise 0, [N, P].
    """

    def __init__(self, observations: Observations, n_outputs: int) -> None:
        order = np.argsort(observations.p, kind="stable")
        X, p = observations.X[order], observations.p[order]
        self.y, self.p = observations.y[order], p
        self.member: FloatArray = (p[:, None] == np.arange(n_outputs)).astype(np.float64)
        row, column = np.tril_indices(len(p), -1)
        by_class = np.lexsort((row, column, p[column], p[row]))
        row, column = row[by_class], column[by_class]
        self.position = column * len(p) + row
        self.r2 = squared_distances(X, X)[row, column]
        code = p[row] * n_outputs + p[column]
        found, starts = np.unique(code, return_index=True)
        edges = [*starts.tolist(), len(code)]
        self.classes = [
            (int(each) // n_outputs, int(each) % n_outputs, slice(start, end))
            for each, start, end in zip(found, edges[:-1], edges[1:], strict=True)
        ]


class CovarianceBatch:
    """Arrays for the covariances of one batch of parameter vectors. They are reused: new arrays cause page faults.

    Attributes:
        packed: covariances of the pairs, or after `adjoints` the entries of K^-1 - alpha alpha' there, [size, M].
        diagonal: the same on the diagonal, [size, N].
    """

    def __init__(self, size: int, pairs: ObservedPairs) -> None:
        n = len(pairs.y)
        self._pairs = pairs
        self.packed = np.empty((size, len(pairs.r2)))
        square = np.empty((size, n, n))
        self._flat = square.reshape(size, n * n)
        self.diagonal = self._flat[:, :: n + 1]
        # Fortran-ordered, so LAPACK works in place: the lower triangle of each view
        self._views = [each.T for each in square]
        self._alpha = np.empty((size, n))

    def __len__(self) -> int:
        return len(self.packed)

    def likelihoods(self, count: int) -> FloatArray:
        """Return the log marginal likelihoods [count] of the first covariances, -inf where one cannot be factorised.

        They use the inverses, which `adjoints` also needs. So a likelihood has the same bits with and without its
        gradient.
        """
        pairs, y = self._pairs, self._pairs.y
        self._flat[:count, pairs.position] = self.packed[:count]
        failed = [dpotrf(view, 1, 0, 1)[1] for view in self._views[:count]]
        half_log_det = np.log(self.diagonal[:count]).sum(axis=1)
        for view, alpha in zip(self._views[:count], self._alpha, strict=False):
            dpotri(view, 1, 1)
            dsymv(1.0, view, y, 0.0, alpha, lower=1, overwrite_y=1)
        value = -0.5 * (self._alpha[:count] @ y) - half_log_det - 0.5 * len(y) * math.log(2.0 * math.pi)
        return np.where(failed, -np.inf, value)

    def adjoints(self, count: int) -> None:
        """Replace the first covariances, given to `likelihoods`, by K^-1 - alpha alpha'."""
        for view, alpha in zip(self._views[:count], self._alpha, strict=False):
            dsyr(-1.0, alpha, lower=1, a=view, overwrite_a=1)
        np.take(self._flat[:count], self._pairs.position, axis=1, out=self.packed[:count], mode="clip")


class ParameterVectors(Protocol):
    """S hyperparameter vectors: a dataclass of arrays with the vectors as first axis."""

    def __len__(self) -> int: ...

    def rows(self, part: slice) -> Self: ...


Vectors = TypeVar("Vectors", bound=ParameterVectors)


class BatchedLikelihood(ABC, Generic[Vectors]):
    """Log marginal likelihood of given observations, for one batch of parameter vectors after another."""

    _batch: CovarianceBatch

    def __init__(self, pairs: ObservedPairs, step: int) -> None:
        self._pairs, self._step = pairs, step
        self._allocate(0)

    def value(self, parameters: Vectors) -> FloatArray:
        value = np.empty(len(parameters))
        with np.errstate(all="ignore"):
            for part in self._covariances(parameters):
                value[part] = self._batch.likelihoods(part.stop - part.start)
        return np.where(np.isfinite(value), value, -np.inf)

    @abstractmethod
    def _allocate(self, size: int) -> None: ...

    @abstractmethod
    def _fill_covariances(self, parameters: Vectors) -> None: ...

    def _covariances(self, parameters: Vectors) -> Iterator[slice]:
        """Fill the batch with the covariances of one slice of vectors after another, and yield the slices."""
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


class ConstrainedModel(Protocol[Unconstrained]):
    """A model whose hyperparameters have names and constraints."""

    @property
    def prior(self) -> UnconstrainedPrior: ...

    def constrain(self, u: FloatArray) -> Unconstrained: ...

    def join(self, parameters: Unconstrained) -> FloatArray:
        """Return hyperparameters, or derivatives with respect to them, as one array [S, d] in the order of u."""


class ConstrainedLikelihood(Protocol[Unconstrained]):
    """Log marginal likelihood of given observations as a function of the constrained parameters."""

    def value(self, parameters: Unconstrained) -> FloatArray: ...

    def value_and_gradient(self, parameters: Unconstrained) -> tuple[FloatArray, Unconstrained]: ...


class UnconstrainedLikelihood(Generic[Unconstrained]):
    """The log marginal likelihood as a function of u, -inf with zero gradient if not finite, 0 without observations."""

    def __init__(
        self, model: ConstrainedModel[Unconstrained], of_parameters: ConstrainedLikelihood[Unconstrained] | None
    ) -> None:
        self._model, self._of_parameters = model, of_parameters

    def value(self, u: FloatArray) -> FloatArray:
        if self._of_parameters is None:
            return np.zeros(len(u))
        with np.errstate(all="ignore"):
            value = self._of_parameters.value(self._model.constrain(u))
        return np.where(np.isfinite(value), value, -np.inf)

    def value_and_gradient(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self._of_parameters is None:
            return np.zeros(len(u)), np.zeros_like(u)
        with np.errstate(all="ignore"):  # a diverged particle may be anywhere
            value, slopes = self._of_parameters.value_and_gradient(self._model.constrain(u))
            gradient = self._model.join(slopes) * self._model.prior.derivative(u)
        good = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
        return np.where(good, value, -np.inf), np.where(good[:, None], gradient, 0.0)
