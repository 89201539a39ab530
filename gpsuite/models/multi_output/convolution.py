"""Log marginal likelihood of the Gaussian convolution process and its gradient, for many parameters at once.

Equation: Li et al. 2022, Eq. (28)
Equation: Li et al. 2022, Eq. (25)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.multi_output.observations import (
    CHUNK,
    BatchedLikelihood,
    CovarianceBatch,
    Likelihood,
    Observations,
    ObservedPairs,
    UnconstrainedLikelihood,
    finite,
    squared_distances,
)
from gpsuite.models.sampling.priors import NOISE_FLOOR, Gamma, HyperPriors, UnconstrainedPrior

# mean 1/2, a third of the lengthscales' prior mean: most widths only blur slightly
SMOOTHING_PRIOR = Gamma(1.5, 3.0)


@dataclass(frozen=True, eq=False)
class ConvolutionParameters:
    """S hyperparameter vectors by name. Also used for derivatives with respect to each.

    Attributes:
        variance: v_l of the latent processes [S, L].
        lengthscale: lengthscales of the latent processes [S, L], in units of the inputs.
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
        return len(self.noise)

    def rows(self, part: slice) -> ConvolutionParameters:
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

    Pairs of values of the same two outputs share the widths T_l. So every derivative consists of two sums per class of
    pairs and latent process. These are the sums of M_ij e_ij and of M_ij r_ij^2 e_ij, with M = K^-1 - alpha alpha' and
    e = exp(-r^2 / (2 T)).
    """

    def __init__(self, observations: Observations, n_outputs: int, n_latent: int) -> None:
        pairs = ObservedPairs(observations, n_outputs)
        self._n_inputs, self._n_latent = observations.X.shape[1], n_latent
        self._moments = np.column_stack([np.ones(len(pairs.r2)), pairs.r2])
        super().__init__(pairs, max(1, CHUNK // max(1, n_latent * len(pairs.r2))))

    def value_and_gradient(self, parameters: ConvolutionParameters) -> tuple[FloatArray, ConvolutionParameters]:
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
        """Return the derivatives. A class counts once for each of its outputs, so twice if both are the same."""
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


# Convolution process with Gaussian smoothing: each output smooths the same latent processes by its own width.
#
# f_p = sum_l G_pl * g_l with G_pl proportional to N(. | 0, A_p^-1). Latent processes have covariances proportional to
# N(x - x' | 0, Lambda_l^-1). So cov(f_p(x), f_q(x')) is a sum of N(x - x' | 0, A_p^-1 + A_q^-1 + Lambda_l^-1) (Alvarez
# and Lawrence 2011, and Li, Rakitsch and Zimmer 2022, App. G and H). NumPy, for many hyperparameter vectors at once.
# `gpsuite.data.generators.gp_samples.convolution_covariance` takes general matrices.
@dataclass(frozen=True)
class ConvolutionProcess:
    """Gaussian convolution process with isotropic smoothing and latent kernels. Implements `MultiOutputModel`.

    With A_p = I / s_p^2, Lambda_l = I / l_l^2, a_pl = 2 s_p^2 + l_l^2 and T = s_p^2 + s_q^2 + l_l^2,

        cov(f_p(x), f_q(x')) = sum_l W_pl W_ql v_l (sqrt(a_pl a_ql) / T)^(D/2) exp(-|x - x'|^2 / (2 T)).

    Smoothing kernels are scaled: var f_p = sum_l W_pl^2 v_l regardless of the widths and D. So W and v have the same
    meaning and priors as in the linear model of coregionalisation with squared exponential kernels. The process tends
    to that model as the widths s_p go to 0. In the paper's notation, with normal densities, c_l N(0 | 0,
    Lambda_l^-1) = v_l and its weights are W_pl (a_pl / l_l^2)^(D/4).

    u holds latent variances [L], lengthscales [L], noise variances [P], smoothing widths [P] and weights W [P, L] row
    by row. Positive values are softplus of u (noise: 1e-6 + softplus). Weights are unchanged.

    Attributes:
        n_outputs: P.
        n_inputs: D. It enters the covariance between outputs.
        smoothing: prior of each width s_p, in units of the inputs.

    Raises:
        ValueError: if P, D or L is not positive.
    """

    n_outputs: int
    n_inputs: int
    n_latent: int = 0
    priors: HyperPriors = field(default_factory=HyperPriors)
    smoothing: Gamma = SMOOTHING_PRIOR

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_latent", self.n_latent or self.n_outputs)
        if min(self.n_outputs, self.n_inputs, self.n_latent) < 1:
            raise ValueError(
                f"{self.n_outputs} outputs, {self.n_inputs} inputs, {self.n_latent} latent processes: "
                "all must be positive"
            )

    @property
    def n_parameters(self) -> int:
        return 2 * self.n_latent + 2 * self.n_outputs + self.n_outputs * self.n_latent

    @property
    def names(self) -> tuple[str, ...]:
        latent, outputs = range(self.n_latent), range(self.n_outputs)
        of_latent = [f"{name}_{i}" for name in ("variance", "lengthscale") for i in latent]
        of_outputs = [f"{name}_{p}" for name in ("noise", "smoothing") for p in outputs]
        return (*of_latent, *of_outputs, *(f"W_{p}{i}" for p in outputs for i in latent))

    @cached_property
    def prior(self) -> UnconstrainedPrior:
        latent = [(self.priors.variance, 0.0)] * self.n_latent
        latent += [(self.priors.lengthscale, 0.0)] * self.n_latent
        outputs = [(self.priors.noise, NOISE_FLOOR)] * self.n_outputs + [(self.smoothing, 0.0)] * self.n_outputs
        return UnconstrainedPrior(latent + outputs, [self.priors.mixing] * (self.n_outputs * self.n_latent))

    def draw_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        return self.prior.draw(rng, n)

    def log_prior(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.prior.log_density(u)

    def constrain(self, u: FloatArray) -> ConvolutionParameters:
        edges = np.cumsum([self.n_latent, self.n_latent, self.n_outputs, self.n_outputs])
        variance, lengthscale, noise, smoothing, weights = np.split(self.prior.constrain(u), edges, axis=1)
        W = weights.reshape(len(u), self.n_outputs, self.n_latent)
        return ConvolutionParameters(variance, lengthscale, noise, smoothing, W)

    def join(self, parameters: ConvolutionParameters) -> FloatArray:
        return np.hstack([each.reshape(len(each), -1) for each in vars(parameters).values()])

    def unconstrain(self, parameters: ConvolutionParameters) -> FloatArray:
        return self.prior.unconstrain(self.join(parameters))

    def likelihood(self, observations: Observations) -> Likelihood:
        p = observations.p
        if len(p) and not (p.min() >= 0 and p.max() < self.n_outputs):
            raise ValueError(f"outputs {p.min()} to {p.max()} observed. The model has {self.n_outputs}")
        self._check_inputs(observations.X)
        if not len(observations):
            return UnconstrainedLikelihood(self, None)
        found = ConvolutionLikelihood(observations, self.n_outputs, self.n_latent)
        return UnconstrainedLikelihood(self, found)

    def covariance(self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray, p2: IntArray) -> FloatArray:
        found = np.empty((len(u), len(X), len(X2)))
        for q in np.unique(p2):
            here = np.flatnonzero(p2 == q)
            found[:, :, here] = self._with_output(self.constrain(u), X, p, X2[here], int(q))
        return found

    def cross_covariance(self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray) -> FloatArray:
        parameters = self.constrain(u)
        found = np.empty((len(u), len(X), len(X2), self.n_outputs))
        for q in range(self.n_outputs):
            found[..., q] = self._with_output(parameters, X, p, X2, q)
        return found

    def prior_covariance(self, u: FloatArray) -> FloatArray:
        parameters = self.constrain(u)
        found = np.empty((len(u), self.n_outputs, self.n_outputs))
        for p in range(self.n_outputs):
            for q in range(p + 1):
                weights = parameters.W[:, p] * parameters.W[:, q] * parameters.overlap(p, q, self.n_inputs)
                found[:, p, q] = found[:, q, p] = weights.sum(axis=1)
        return found

    def noise(self, u: FloatArray) -> FloatArray:
        return self.constrain(u).noise

    def _with_output(
        self, parameters: ConvolutionParameters, X: FloatArray, p: IntArray, X2: FloatArray, q: int
    ) -> FloatArray:
        """Return cov(f_p(x), f_q(x2)) for one output q, [S, N, N2]."""
        self._check_inputs(X)
        found = np.zeros((len(parameters), len(X), len(X2)))
        for one in np.unique(p):
            here = np.flatnonzero(p == one)
            r2 = squared_distances(X[here], X2)
            rate = -0.5 / parameters.spread(int(one), q)
            overlap = parameters.overlap(int(one), q, self.n_inputs)
            weights = parameters.W[:, one] * parameters.W[:, q] * overlap
            step = max(1, CHUNK // max(1, r2.size))
            for start in range(0, len(parameters), step):
                part = slice(start, start + step)
                for latent in range(self.n_latent):
                    values = np.exp(r2 * rate[part, latent, None, None])
                    values *= weights[part, latent, None, None]
                    found[part, here] += values
        return found

    def _check_inputs(self, X: FloatArray) -> None:
        if X.shape[1] != self.n_inputs:
            raise ValueError(f"inputs have {X.shape[1]} columns. The model has {self.n_inputs}")
