"""Log marginal likelihood of the Gaussian convolution process and its gradient, for many parameters at once.

Equation: Li et al. 2022, Eq. (28)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.multi_output.batched_likelihood import BatchedLikelihood, finite
from gpsuite.models.multi_output.latent_kernels import CHUNK
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.observed_pairs import CovarianceBatch, ObservedPairs


@dataclass(frozen=True, eq=False)
class ConvolutionParameters:
    """S hyperparameter vectors by name; also used for derivatives with respect to each.

    Attributes:
        variance: v_l of the latent processes [S, L].
        lengthscale: of the latent processes [S, L], in units of the inputs.
        noise: variance of each output's noise [S, P].
        smoothing: width s_p of each output's smoothing [S, P], in units of the inputs.
        W: mixing weights [S, P, L].
    """

    variance: FloatArray
    lengthscale: FloatArray
    noise: FloatArray
    smoothing: FloatArray
    W: FloatArray

    def __len__(self) -> int:
        """Number S of vectors."""
        return len(self.noise)

    def rows(self, part: slice) -> ConvolutionParameters:
        """Return some of the vectors."""
        return ConvolutionParameters(
            self.variance[part], self.lengthscale[part], self.noise[part], self.smoothing[part], self.W[part]
        )

    @property
    def own_spread(self) -> FloatArray:
        """Squared width a_pl = 2 s_p^2 + l_l^2 of an output's own covariance, [S, P, L]."""
        return 2.0 * self.smoothing[:, :, None] ** 2 + self.lengthscale[:, None, :] ** 2

    def spread(self, p: int, q: int) -> FloatArray:
        """Return the squared width T = s_p^2 + s_q^2 + l_l^2 of two outputs' covariance, [S, L]."""
        widths: FloatArray = self.smoothing[:, p, None] ** 2 + self.smoothing[:, q, None] ** 2
        return widths + self.lengthscale**2

    def overlap(self, p: int, q: int, n_inputs: int) -> FloatArray:
        """Return v_l (sqrt(a_pl a_ql) / T)^(D/2), the covariance at one input but for both weights, [S, L]."""
        own = self.own_spread
        log_ratio = 0.5 * (np.log(own[:, p]) + np.log(own[:, q])) - np.log(self.spread(p, q))
        found: FloatArray = self.variance * np.exp(0.5 * n_inputs * log_ratio)
        return found


class ConvolutionLikelihood(BatchedLikelihood[ConvolutionParameters]):
    """Log marginal likelihood of given observations as a function of the constrained parameters.

    Pairs of values of the same two outputs share the widths T_l, so that every derivative is made of two sums per
    class of pairs and latent process: of M_ij e_ij and of M_ij r_ij^2 e_ij, with M = K^-1 - alpha alpha' and
    e = exp(-r^2 / (2 T)).
    """

    def __init__(self, observations: Observations, n_outputs: int, n_latent: int) -> None:
        """Take at least one observation, P and L."""
        pairs = ObservedPairs(observations, n_outputs)
        self._n_inputs, self._n_latent = observations.X.shape[1], n_latent
        self._moments = np.column_stack([np.ones(len(pairs.r2)), pairs.r2])
        super().__init__(pairs, max(1, CHUNK // max(1, n_latent * len(pairs.r2))))

    def value_and_gradient(
        self, parameters: ConvolutionParameters
    ) -> tuple[FloatArray, ConvolutionParameters]:
        """Return the log marginal likelihood [S] and its derivatives.

        Where a covariance cannot be factorised or a number is not finite, the value is -inf and the derivatives zero.
        """
        count = len(parameters)
        value = np.empty(count)
        sums = np.empty((count, len(self._pairs.classes), self._n_latent, 2))
        diagonal = np.empty((count, parameters.noise.shape[1]))
        with np.errstate(all="ignore"):
            for part in self._covariances(parameters):
                size = part.stop - part.start
                value[part] = self._batch.likelihoods(size)
                self._batch.adjoints(size)
                diagonal[part] = self._batch.diagonal[:size] @ self._pairs.member
                self._sum_by_class(sums[part])
            return finite(value, self._chain_rule(parameters, sums, diagonal))

    def _allocate(self, size: int) -> None:
        self._batch = CovarianceBatch(size, self._pairs)
        self._values = np.empty((size, self._n_latent, len(self._pairs.r2)))

    def _fill_covariances(self, parameters: ConvolutionParameters) -> None:
        batch, count, W = self._batch, len(parameters), parameters.W
        for p, q, pairs in self._pairs.classes:
            values = self._values[:count, :, pairs]
            rate = -0.5 / parameters.spread(p, q)
            np.exp(np.multiply(self._pairs.r2[pairs], rate[:, :, None], out=values), out=values)
            weights = W[:, p] * W[:, q] * parameters.overlap(p, q, self._n_inputs)
            np.matmul(weights[:, None], values, out=batch.packed[:count, None, pairs])
        variance = (parameters.variance[:, None] * W**2).sum(axis=2) + parameters.noise
        batch.diagonal[:count] = variance[:, self._pairs.p]

    def _sum_by_class(self, sums: FloatArray) -> None:
        """Sum M_ij e_ij and M_ij r_ij^2 e_ij over the pairs of each class, into [count, classes, L, 2]."""
        count = len(sums)
        for number, (_, _, pairs) in enumerate(self._pairs.classes):
            values = self._values[:count, :, pairs]
            values *= self._batch.packed[:count, None, pairs]
            np.matmul(values, self._moments[pairs], out=sums[:, number])

    def _chain_rule(
        self, parameters: ConvolutionParameters, sums: FloatArray, diagonal: FloatArray
    ) -> ConvolutionParameters:
        """Return the derivatives; a class counts for each of its outputs in turn, twice if they are the same."""
        variance, lengthscale, W = parameters.variance, parameters.lengthscale, parameters.W
        own, half = parameters.own_spread, 0.5 * self._n_inputs
        by_variance = -0.5 * np.matmul(diagonal[:, None], W**2)[:, 0]
        by_weight = -diagonal[:, :, None] * W * variance[:, None]
        by_lengthscale, by_smoothing = np.zeros_like(lengthscale), np.zeros_like(parameters.smoothing)
        for number, (p, q, _) in enumerate(self._pairs.classes):
            total, weighted = sums[:, number, :, 0], sums[:, number, :, 1]
            spread, overlap = parameters.spread(p, q), parameters.overlap(p, q, self._n_inputs)
            shared = W[:, p] * W[:, q] * overlap
            by_variance -= shared * total / variance
            by_spread = shared * (half * total / spread - 0.5 * weighted / spread**2)
            by_lengthscale += 2.0 * lengthscale * by_spread
            for one, other in ((p, q), (q, p)):
                by_own = -0.5 * half * shared * total / own[:, one]
                by_weight[:, one] -= W[:, other] * overlap * total
                by_lengthscale += 2.0 * lengthscale * by_own
                width = parameters.smoothing[:, one]
                by_smoothing[:, one] += 2.0 * width * (by_spread + 2.0 * by_own).sum(axis=1)
        return ConvolutionParameters(by_variance, by_lengthscale, -0.5 * diagonal, by_smoothing, by_weight)
