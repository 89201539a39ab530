"""Training a free-form sparse posterior on a PAC-Bayesian bound, from the FITC or VFE posterior of a given start.

Equation: Reeb et al. 2018, Sec. 3.2
Equation: derived, free-form posterior
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.problem import Problem, Search, TrainedGP
from gpsuite.methods.pac_bayes.sparse.free_form import FreeFormGradient, FreeFormObjective, WhitenedGaussian
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior

# Largest |ln T_jj|: keeps T regular and finite.
_LARGEST_LOG = 50.0


@dataclass(frozen=True)
class TrainedFreeForm:
    """A prior and a posterior of its inducing variables, found by minimising a bound.

    Attributes:
        gp: the hyperparameters, and how the search went; the noise variance is that of the start.
        Z: inducing inputs [M, D]; they carry no penalty and are not rounded.
        gaussian: posterior of the whitened inducing variables.
        jitter: multiple of sigma_f^2 on the diagonal of K_ZZ where the bound was found; 0 if none.
    """

    gp: TrainedGP
    Z: FloatArray
    gaussian: WhitenedGaussian
    jitter: float


def train_free_form(problem: Problem, Z: FloatArray, alpha: float, search: Search) -> TrainedFreeForm:
    """Minimise the bound of a free-form posterior over kernel hyperparameters, inducing inputs and the posterior.

    L-BFGS-B from the posterior of `SparseGPPosterior` at the start, whose bound is that of `SparseGPObjective`: the
    result is never above it. Variance and lengthscales stay in the box [e^-6, e^6] of the grid; afterwards they are
    rounded (`gp.rounded`) and the whitened posterior stays as it is.

    Args:
        problem: data, loss and confidence of the bound.
        Z: inducing inputs to start from [M, D].
        alpha: of the first posterior: 1 is FITC, 0 is VFE.
        search: limits, and the start, such as the result of `train_sparse_gp`; its noise variance only shapes the
            first posterior.

    Raises:
        ValueError: if shapes disagree, Z is not finite, alpha is out of range, or `search.start` has the wrong number
            of lengthscales.
        UserError: if the parametrisation is unknown.
        NotPositiveDefiniteError: if K_ZZ cannot be factorised at the start even with jitter.
    """
    bound = FreeFormObjective(problem, len(Z))
    first = search.first(problem.n_lengthscales)
    posterior = SparseGPPosterior.fit(first, problem.X, problem.y, Z, alpha)
    bound.jitter = posterior.inducing.jitter
    point = _Point(search, first.n_kernel, posterior.Z.shape)
    jitters: dict[float, float] = {}  # by value: a later, worse trial may need a larger one

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        theta, slope, inputs, gaussian = point.unpack(u)
        value, gradient, _ = bound.value_and_gradient(theta, inputs, gaussian)
        jitters.setdefault(value, bound.jitter)
        return value, point.packed_gradient(gradient, slope, gaussian)

    begin = point.pack(first.to_log()[:-1], posterior.Z, WhitenedGaussian.of(posterior.whitened))
    found = search.run(value_and_gradient, begin, point.limits())
    theta, _, inputs, gaussian = point.unpack(found.point)
    gp = TrainedGP.at(np.append(theta, math.log(first.noise_variance)), found)
    return TrainedFreeForm(gp, inputs, gaussian, jitters.get(found.loss, bound.jitter))


class _Point:
    """The search variables: u of the hyperparameters, Z, m and the lower triangle of T, its diagonal as ln T_jj."""

    def __init__(self, search: Search, n_kernel: int, shape: tuple[int, ...]) -> None:
        self._search, self._n_kernel, self._shape = search, n_kernel, shape
        self._variables = search.variables
        self._rows, self._columns = np.tril_indices(shape[0])
        self._diagonal = np.flatnonzero(self._rows == self._columns)
        self._ends = np.cumsum([n_kernel, math.prod(shape), shape[0]])

    def pack(self, theta: FloatArray, Z: FloatArray, gaussian: WhitenedGaussian) -> FloatArray:
        """Return the variables at log hyperparameters theta [T], Z and a posterior with a positive diagonal of T."""
        triangle = gaussian.factor[self._rows, self._columns]
        triangle[self._diagonal] = np.log(triangle[self._diagonal])
        return np.concatenate([self._variables.from_log(theta), Z.ravel(), gaussian.mean, triangle])

    def limits(self) -> list[tuple[float, float]]:
        """Return the limits of the variables."""
        kernel = self._search.limits(self._n_kernel)[:-1]
        triangle = np.full(len(self._rows), math.inf)
        triangle[self._diagonal] = _LARGEST_LOG
        free = [(-math.inf, math.inf)] * (math.prod(self._shape) + self._shape[0])
        return kernel + free + [(-float(limit), float(limit)) for limit in triangle]

    def unpack(self, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, WhitenedGaussian]:
        """Return theta [T], its derivative in u [T], Z and the whitened posterior."""
        kernel, inputs, mean, triangle = np.split(u, self._ends)
        theta, slope = self._variables.to_log(kernel)
        factor = np.zeros((len(mean), len(mean)))
        factor[self._rows, self._columns] = triangle
        factor[np.diag_indices_from(factor)] = np.exp(triangle[self._diagonal])
        return theta, slope, inputs.reshape(self._shape), WhitenedGaussian(mean, factor)

    def packed_gradient(
        self, gradient: FreeFormGradient, slope: FloatArray, gaussian: WhitenedGaussian
    ) -> FloatArray:
        """Return the derivatives in the variables; `slope` is that of theta in u."""
        triangle = gradient.d_factor[self._rows, self._columns]
        triangle[self._diagonal] *= np.diagonal(gaussian.factor)
        return np.concatenate([gradient.d_theta * slope, gradient.d_Z.ravel(), gradient.d_mean, triangle])
