"""Log marginal likelihood of the linear model of coregionalisation and its gradient, for many parameters at once.

What LAPACK does is in `observed_pairs`: per parameter vector a Cholesky factor, the inverse from it, two symmetric
products. The rest is sums over the pairs of each two outputs.

Equation: Li et al. 2022, Eq. (28)
Equation: derived, likelihood and gradient for all particles
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.multi_output.batched_likelihood import BatchedLikelihood, finite
from gpsuite.models.multi_output.latent_kernels import CHUNK, LatentKernel
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.observed_pairs import CovarianceBatch, ObservedPairs

FEWEST, MANY_CLASSES = 4, 20
"""Parameter vectors per batch at least, where the pairs of outputs are more than this."""


@dataclass(frozen=True, eq=False)
class Parameters:
    """S hyperparameter vectors by name; also used for derivatives with respect to each.

    Attributes:
        variance: of the latent processes [S, L].
        lengthscale: of the latent processes [S, L], in units of the inputs.
        noise: variance of each output's noise [S, P].
        W: mixing weights [S, P, L].
    """

    variance: FloatArray
    lengthscale: FloatArray
    noise: FloatArray
    W: FloatArray

    def __len__(self) -> int:
        """Number S of vectors."""
        return len(self.noise)

    def rows(self, part: slice) -> Parameters:
        """Return some of the vectors."""
        return Parameters(self.variance[part], self.lengthscale[part], self.noise[part], self.W[part])


class CoregionalizationLikelihood(BatchedLikelihood[Parameters]):
    """Log marginal likelihood of given observations as a function of the constrained parameters.

    The observations are sorted by output. The pairs i > j of the lower triangle lie packed one after another, sorted by
    their outputs (p, q): in one class the covariance is sum_l (variance_l W_pl W_ql) k_l, a product with one vector,
    and every derivative is a dot product per class.
    """

    def __init__(self, observations: Observations, n_outputs: int, n_latent: int, kernel: str) -> None:
        """Take at least one observation, P, L and the kernel's name, one of `LATENT_KERNELS`."""
        pairs = ObservedPairs(observations, n_outputs)
        self._n_outputs, self._n_latent = n_outputs, n_latent
        self._kernel = LatentKernel(kernel, pairs.r2)
        # With many classes the calls cost more than what leaves the cache: never so few vectors that they dominate.
        least = FEWEST if len(pairs.classes) > MANY_CLASSES and len(pairs.r2) < CHUNK else 1
        super().__init__(pairs, max(least, CHUNK // max(1, n_latent * len(pairs.r2))))

    def value_and_gradient(self, parameters: Parameters) -> tuple[FloatArray, Parameters]:
        """Return the log marginal likelihood [S] and its derivatives.

        Where a covariance cannot be factorised or a number is not finite, the value is -inf and the derivatives zero.
        """
        count, n_pair_sums = len(parameters), (self._n_latent, self._n_outputs, self._n_outputs)
        value = np.empty(count)
        sums = np.empty((2, count, *n_pair_sums))
        diagonal = np.empty((count, self._n_outputs))
        with np.errstate(all="ignore"):
            for part in self._covariances(parameters):
                size = part.stop - part.start
                value[part] = self._batch.likelihoods(size)
                self._batch.adjoints(size)
                diagonal[part] = self._sum_by_class(sums[:, part])
            return finite(value, _chain_rule(parameters, sums, diagonal))

    def _allocate(self, size: int) -> None:
        shape = (size, self._n_latent, len(self._pairs.r2))
        self._batch = CovarianceBatch(size, self._pairs)
        self._value, self._slope, self._work = (np.empty(shape) for _ in range(3))

    def _fill_covariances(self, parameters: Parameters) -> None:
        batch, count = self._batch, len(parameters)
        values = self._value[:count]
        lengthscale = parameters.lengthscale[:, :, None]
        self._kernel.fill(lengthscale, values, self._slope[:count], self._work[:count])
        scaled = parameters.variance[:, None] * parameters.W
        for p, q, pairs in self._pairs.classes:
            weights = (scaled[:, p] * parameters.W[:, q])[:, None]
            np.matmul(weights, values[:, :, pairs], out=batch.packed[:count, None, pairs])
        variance = (scaled * parameters.W).sum(axis=2) + parameters.noise
        batch.diagonal[:count] = variance[:, self._pairs.p]

    def _sum_by_class(self, sums: FloatArray) -> FloatArray:
        """Sum (K^-1 - alpha alpha')_ij times k_l and l dk_l/dl over the pairs i, j of outputs p, q.

        Args:
            sums: receives both sums over ordered pairs, the diagonal included, [2, count, L, P, P].

        Returns:
            The diagonal's sums by output [count, P].
        """
        batch, count = self._batch, sums.shape[1]
        diagonal: FloatArray = batch.diagonal[:count] @ self._pairs.member
        sums[:] = 0.0
        for p, q, pairs in self._pairs.classes:
            factor = batch.packed[:count, pairs, None]
            for total, array in zip(sums, (self._value, self._slope), strict=True):
                found = np.matmul(array[:count, :, pairs], factor)[:, :, 0]
                total[:, :, p, q] = total[:, :, q, p] = 2.0 * found if p == q else found
        for p in range(self._n_outputs):
            sums[0, :, :, p, p] += diagonal[:, p, None]
        return diagonal


class IndependentLikelihood:
    """Log marginal likelihood of independent outputs: each output's own covariance, factorised by itself."""

    def __init__(self, observations: Observations, n_outputs: int, kernel: str) -> None:
        """Take the observations, P and the kernel's name; an output without observations contributes nothing."""
        self._parts: list[tuple[int, CoregionalizationLikelihood]] = []
        for p in range(n_outputs):
            here = observations.p == p
            if here.any():
                own = Observations(observations.X[here], observations.p[here] - p, observations.y[here])
                self._parts.append((p, CoregionalizationLikelihood(own, 1, 1, kernel)))

    def value(self, parameters: Parameters) -> FloatArray:
        """Return the log marginal likelihood [S]; -inf where a covariance cannot be factorised or it is not finite."""
        value = np.zeros(len(parameters))
        for p, part in self._parts:
            value += part.value(_single(parameters, p))
        return value

    def value_and_gradient(self, parameters: Parameters) -> tuple[FloatArray, Parameters]:
        """Return the log marginal likelihood [S] and its derivatives; those with respect to W are left at zero.

        Where a covariance cannot be factorised or a number is not finite, the value is -inf and the derivatives zero.
        """
        value = np.zeros(len(parameters))
        # not [S, P]: without observations the outputs may be any mixtures of L processes
        variance, lengthscale, noise = (
            np.zeros_like(each) for each in (parameters.variance, parameters.lengthscale, parameters.noise)
        )
        for p, part in self._parts:
            own = slice(p, p + 1)
            added, slopes = part.value_and_gradient(_single(parameters, p))
            value += added
            variance[:, own], lengthscale[:, own], noise[:, own] = (
                slopes.variance,
                slopes.lengthscale,
                slopes.noise,
            )
        failed = np.isneginf(value)
        for each in (variance, lengthscale, noise):
            each[failed] = 0.0
        return value, Parameters(variance, lengthscale, noise, np.zeros_like(parameters.W))


def _single(parameters: Parameters, p: int) -> Parameters:
    """Return the parameters of output p alone, with a weight of one."""
    own = slice(p, p + 1)
    W = np.ones((len(parameters), 1, 1))
    return Parameters(
        parameters.variance[:, own], parameters.lengthscale[:, own], parameters.noise[:, own], W
    )


def _chain_rule(parameters: Parameters, sums: FloatArray, diagonal: FloatArray) -> Parameters:
    """Return the derivatives from the sums over classes."""
    W = parameters.W.swapaxes(1, 2)  # [S, L, P]
    by_value, by_slope = np.matmul(sums, W[..., None])[..., 0]
    variance, lengthscale = parameters.variance, parameters.lengthscale
    return Parameters(
        -0.5 * (W * by_value).sum(axis=2),
        -0.5 * variance / lengthscale * (W * by_slope).sum(axis=2),
        -0.5 * diagonal,
        -(variance[:, :, None] * by_value).swapaxes(1, 2),
    )
