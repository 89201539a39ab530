"""Log marginal likelihood of the linear model of coregionalisation and its gradient, for many parameters at once.

`ObservedPairs` and `CovarianceBatch` call LAPACK: per parameter vector a Cholesky factor, the inverse from it, two
symmetric products. The other work is sums over the pairs of each two outputs.

Equation: Li et al. 2022, Eq. (28)
Equation: derived, likelihood and gradient for all particles
Equation: Li et al. 2022, Eq. (3), Eq. (4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.multi_output.observations import (
    CHUNK,
    LATENT_KERNELS,
    BatchedLikelihood,
    CovarianceBatch,
    LatentKernel,
    Likelihood,
    Observations,
    ObservedPairs,
    UnconstrainedLikelihood,
    finite,
    squared_distances,
)
from gpsuite.models.sampling.priors import NOISE_FLOOR, HyperPriors, UnconstrainedPrior

# Least number of parameter vectors per batch, if there are more pairs of outputs than this.
FEWEST, MANY_CLASSES = 4, 20
MIXINGS = ("free", "identity")


@dataclass(frozen=True, eq=False)
class Parameters:
    """S hyperparameter vectors by name. Also used for derivatives with respect to each.

    Attributes:
        variance: variances of the latent processes [S, L].
        lengthscale: lengthscales of the latent processes [S, L], in units of the inputs.
        noise: variance of each output's noise [S, P].
        W: mixing weights [S, P, L].
    """

    variance: FloatArray
    lengthscale: FloatArray
    noise: FloatArray
    W: FloatArray

    def __len__(self) -> int:
        return len(self.noise)

    def rows(self, part: slice) -> Parameters:
        return Parameters(self.variance[part], self.lengthscale[part], self.noise[part], self.W[part])


class CoregionalizationLikelihood(BatchedLikelihood[Parameters]):
    """Log marginal likelihood of given observations as a function of the constrained parameters.

    The observations are sorted by output. The pairs i > j of the lower triangle are stored in sequence, sorted by their
    outputs (p, q). In one class the covariance is sum_l (variance_l W_pl W_ql) k_l, a product with one vector. Every
    derivative is a dot product per class.
    """

    def __init__(self, observations: Observations, n_outputs: int, n_latent: int, kernel: str) -> None:
        pairs = ObservedPairs(observations, n_outputs)
        self._n_outputs, self._n_latent = n_outputs, n_latent
        self._kernel = LatentKernel(kernel, pairs.r2)
        # With many classes calls take more time than the cache saves, so a batch never has fewer vectors.
        least = FEWEST if len(pairs.classes) > MANY_CLASSES and len(pairs.r2) < CHUNK else 1
        super().__init__(pairs, max(least, CHUNK // max(1, n_latent * len(pairs.r2))))

    def value_and_gradient(self, parameters: Parameters) -> tuple[FloatArray, Parameters]:
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
            sums: output array of both sums over ordered pairs, including the diagonal, [2, count, L, P, P].

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
    """Log marginal likelihood of independent outputs. Each output's covariance is factorised separately."""

    def __init__(self, observations: Observations, n_outputs: int, kernel: str) -> None:
        self._parts: list[tuple[int, CoregionalizationLikelihood]] = []
        for p in range(n_outputs):
            here = observations.p == p
            if here.any():
                own = Observations(observations.X[here], observations.p[here] - p, observations.y[here])
                self._parts.append((p, CoregionalizationLikelihood(own, 1, 1, kernel)))

    def value(self, parameters: Parameters) -> FloatArray:
        value = np.zeros(len(parameters))
        for p, part in self._parts:
            value += part.value(_single(parameters, p))
        return value

    def value_and_gradient(self, parameters: Parameters) -> tuple[FloatArray, Parameters]:
        value = np.zeros(len(parameters))
        # not [S, P]: without observations the outputs may be any mixtures of L processes
        variance, lengthscale, noise = (
            np.zeros_like(each) for each in (parameters.variance, parameters.lengthscale, parameters.noise)
        )
        for p, part in self._parts:
            own = slice(p, p + 1)
            added, slopes = part.value_and_gradient(_single(parameters, p))
            value += added
            variance[:, own], lengthscale[:, own], noise[:, own] = (slopes.variance, slopes.lengthscale, slopes.noise)
        failed = np.isneginf(value)
        for each in (variance, lengthscale, noise):
            each[failed] = 0.0
        return value, Parameters(variance, lengthscale, noise, np.zeros_like(parameters.W))


def _single(parameters: Parameters, p: int) -> Parameters:
    own = slice(p, p + 1)
    W = np.ones((len(parameters), 1, 1))
    return Parameters(parameters.variance[:, own], parameters.lengthscale[:, own], parameters.noise[:, own], W)


def _chain_rule(parameters: Parameters, sums: FloatArray, diagonal: FloatArray) -> Parameters:
    W = parameters.W.swapaxes(1, 2)  # [S, L, P]
    by_value, by_slope = np.matmul(sums, W[..., None])[..., 0]
    variance, lengthscale = parameters.variance, parameters.lengthscale
    return Parameters(
        -0.5 * (W * by_value).sum(axis=2),
        -0.5 * variance / lengthscale * (W * by_slope).sum(axis=2),
        -0.5 * diagonal,
        -(variance[:, :, None] * by_value).swapaxes(1, 2),
    )


# Linear model of coregionalisation: outputs that share latent Gaussian processes, and independent ones.
#
# cov(f_p(x), f_q(x')) = sum_l W_pl W_ql k_l(x, x') with zero mean. Measurements have noise of variance noise_p (Li,
# Rakitsch and Zimmer 2022, section 2, and Journel and Huijbregts 1978). NumPy, for many hyperparameter vectors at once.
@dataclass(frozen=True)
class LinearCoregionalization:
    """Linear model of coregionalisation with isotropic latent kernels. Implements `MultiOutputModel`.

    u holds latent variances [L], lengthscales [L], noise variances [P], and with free mixing the weights W [P, L] row
    by row. Positive values are softplus of u (noise: 1e-6 + softplus). Weights are unchanged.

    Attributes:
        n_latent: number L of latent processes (default: P).
        mixing: `free` or `identity`. With `identity` W is the identity and the outputs are independent. With one output
            this is an ordinary Gaussian process, such as the safety model's.
        kernel: kernel of every latent process, `matern52` or `squared_exponential`.

    Raises:
        ValueError: if P or L is not positive, a name is unknown, or L differs from P with identity mixing.
    """

    n_outputs: int
    n_latent: int = 0
    mixing: str = "free"
    kernel: str = "matern52"
    priors: HyperPriors = field(default_factory=HyperPriors)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_latent", self.n_latent or self.n_outputs)
        if self.n_outputs < 1 or self.n_latent < 1:
            raise ValueError(f"{self.n_outputs} outputs, {self.n_latent} latent processes: both must be positive")
        if self.mixing not in MIXINGS:
            raise ValueError(f"mixing={self.mixing}: must be one of {', '.join(MIXINGS)}")
        if self.kernel not in LATENT_KERNELS:
            raise ValueError(f"kernel={self.kernel}: must be one of {', '.join(LATENT_KERNELS)}")
        if self.mixing == "identity" and self.n_latent != self.n_outputs:
            raise ValueError(f"identity mixing needs as many latent processes as outputs, not {self.n_latent}")

    @property
    def n_weights(self) -> int:
        return self.n_outputs * self.n_latent if self.mixing == "free" else 0

    @property
    def n_parameters(self) -> int:
        return 2 * self.n_latent + self.n_outputs + self.n_weights

    @property
    def names(self) -> tuple[str, ...]:
        latent, outputs = range(self.n_latent), range(self.n_outputs)
        positive = [f"variance_{i}" for i in latent] + [f"lengthscale_{i}" for i in latent]
        weights = [f"W_{p}{i}" for p in outputs for i in latent] if self.n_weights else []
        return tuple(positive + [f"noise_{p}" for p in outputs] + weights)

    @cached_property
    def prior(self) -> UnconstrainedPrior:
        latent = [(self.priors.variance, 0.0)] * self.n_latent + [(self.priors.lengthscale, 0.0)] * self.n_latent
        noise = [(self.priors.noise, NOISE_FLOOR)] * self.n_outputs
        return UnconstrainedPrior(latent + noise, [self.priors.mixing] * self.n_weights)

    def draw_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        return self.prior.draw(rng, n)

    def log_prior(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.prior.log_density(u)

    def constrain(self, u: FloatArray) -> Parameters:
        return self.split(self.prior.constrain(u))

    def split(self, x: FloatArray) -> Parameters:
        """Return the columns of x [S, d], in the order of u, by name. W is the identity if it is not free."""
        n_latent, n_outputs = self.n_latent, self.n_outputs
        edges = np.cumsum([n_latent, n_latent, n_outputs])
        variance, lengthscale, noise, weights = np.split(x, edges, axis=1)
        shape = (len(x), n_outputs, n_latent)
        W = weights.reshape(shape) if self.n_weights else np.broadcast_to(np.eye(n_outputs), shape)
        return Parameters(variance, lengthscale, noise, W)

    def join(self, parameters: Parameters) -> FloatArray:
        weights = parameters.W.reshape(len(parameters.W), -1) if self.n_weights else parameters.noise[:, :0]
        return np.hstack([parameters.variance, parameters.lengthscale, parameters.noise, weights])

    def unconstrain(self, parameters: Parameters) -> FloatArray:
        """Return u [S, d]. ValueError unless variances and lengthscales are positive and noise variances above 1e-6."""
        return self.prior.unconstrain(self.join(parameters))

    def likelihood(self, observations: Observations) -> Likelihood:
        return UnconstrainedLikelihood(self, self.constrained_likelihood(observations))

    def constrained_likelihood(self, observations: Observations) -> CoregionalizationLikelihood | IndependentLikelihood:
        p = observations.p
        if len(p) and not (p.min() >= 0 and p.max() < self.n_outputs):
            raise ValueError(f"outputs {p.min()} to {p.max()} observed. The model has {self.n_outputs}")
        if self.mixing == "identity" or not len(observations):
            return IndependentLikelihood(observations, self.n_outputs, self.kernel)
        return CoregionalizationLikelihood(observations, self.n_outputs, self.n_latent, self.kernel)

    def covariance(self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray, p2: IntArray) -> FloatArray:
        distinct, where = _distinct(X2)
        return self.cross_covariance(u, X, p, distinct)[:, :, where, p2]

    def cross_covariance(self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray) -> FloatArray:
        """Return cov(f_p(x), f_q(x2)) for every output q, [S, N, N2, P].

        Each latent kernel is computed once per distinct x and x2.
        """
        parameters = self.constrain(u)
        W = parameters.W
        # scaled[s, n, l, q] = variance_l W_{p_n l} W_ql
        scaled = (parameters.variance[:, None] * W)[:, p, :, None] * W.swapaxes(1, 2)[:, None]
        distinct, where = _distinct(X)
        found = np.empty((len(u), len(X), len(X2), self.n_outputs))
        # blocks of columns, then of hyperparameter vectors: their work arrays fit in the cache
        width = min(max(1, CHUNK // (len(distinct) * self.n_latent + 1)), max(1, len(X2)))
        depth = min(max(1, CHUNK // (len(distinct) * self.n_latent * width + 1)), max(1, len(u)))
        work = np.empty((3, depth * len(distinct) * self.n_latent * width))
        for left in range(0, len(X2), width):
            columns = slice(left, min(left + width, len(X2)))
            latent = LatentKernel(self.kernel, squared_distances(distinct, X2[columns])[:, None])
            for top in range(0, len(u), depth):
                part = slice(top, min(top + depth, len(u)))
                lengthscale = parameters.lengthscale[part, None, :, None]
                shape = np.broadcast_shapes(latent.r.shape, lengthscale.shape)
                value, slope, rest = (each[: math.prod(shape)].reshape(shape) for each in work)
                latent.fill(lengthscale, value, slope, rest)
                rows = value if distinct is X else value[:, where]
                np.matmul(rows.swapaxes(2, 3), scaled[part], out=found[part, :, columns])
        return found

    def prior_covariance(self, u: FloatArray) -> FloatArray:
        parameters = self.constrain(u)
        found: FloatArray = (parameters.W * parameters.variance[:, None]) @ parameters.W.swapaxes(1, 2)
        return found

    def noise(self, u: FloatArray) -> FloatArray:
        return self.constrain(u).noise


def _distinct(X: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct rows of X and the position of each row of X in them. X itself if no row repeats."""
    distinct, where = np.unique(X, axis=0, return_inverse=True)
    return (X, np.arange(len(X))) if len(distinct) == len(X) else (distinct, where.reshape(-1))
