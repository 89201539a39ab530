"""Linear model of coregionalisation: outputs that share latent Gaussian processes, and independent ones.

cov(f_p(x), f_q(x')) = sum_l W_pl W_ql k_l(x, x') with zero mean; what is measured has noise of variance noise_p (Li,
Rakitsch and Zimmer 2022, section 2; Journel and Huijbregts 1978). NumPy, for many hyperparameter vectors at once.

Equation: Li et al. 2022, Eq. (3), Eq. (4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.multi_output.coregionalization_likelihood import (
    CoregionalizationLikelihood,
    IndependentLikelihood,
    Parameters,
)
from gpsuite.models.multi_output.latent_kernels import CHUNK, LATENT_KERNELS, LatentKernel, squared_distances
from gpsuite.models.multi_output.observations import Likelihood, Observations
from gpsuite.models.multi_output.unconstrained_likelihood import UnconstrainedLikelihood
from gpsuite.models.sampling.priors import NOISE_FLOOR, HyperPriors, UnconstrainedPrior

MIXINGS = ("free", "identity")


@dataclass(frozen=True)
class LinearCoregionalization:
    """Linear model of coregionalisation with isotropic latent kernels; implements `MultiOutputModel`.

    The order of u: latent variances [L], lengthscales [L], noise variances [P], and with free mixing the weights W
    [P, L] row by row. Softplus makes the positive ones (noise: 1e-6 + softplus); weights are unchanged.

    Attributes:
        n_outputs: P.
        n_latent: number L of latent processes (default: P).
        mixing: `free`, or `identity`: W is the identity, the outputs are independent. With one output that is an
            ordinary Gaussian process, such as the safety model's.
        kernel: `matern52` or `squared_exponential`, of every latent process.
        priors: of the hyperparameters.

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
            raise ValueError(
                f"{self.n_outputs} outputs, {self.n_latent} latent processes: both must be positive"
            )
        if self.mixing not in MIXINGS:
            raise ValueError(f"mixing={self.mixing}: must be one of {', '.join(MIXINGS)}")
        if self.kernel not in LATENT_KERNELS:
            raise ValueError(f"kernel={self.kernel}: must be one of {', '.join(LATENT_KERNELS)}")
        if self.mixing == "identity" and self.n_latent != self.n_outputs:
            raise ValueError(
                f"identity mixing needs as many latent processes as outputs, not {self.n_latent}"
            )

    @property
    def n_weights(self) -> int:
        """Number of mixing weights in u: P L, or none."""
        return self.n_outputs * self.n_latent if self.mixing == "free" else 0

    @property
    def n_parameters(self) -> int:
        """Length d of u."""
        return 2 * self.n_latent + self.n_outputs + self.n_weights

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d constrained parameters, in the order of u."""
        latent, outputs = range(self.n_latent), range(self.n_outputs)
        positive = [f"variance_{i}" for i in latent] + [f"lengthscale_{i}" for i in latent]
        weights = [f"W_{p}{i}" for p in outputs for i in latent] if self.n_weights else []
        return tuple(positive + [f"noise_{p}" for p in outputs] + weights)

    @cached_property
    def prior(self) -> UnconstrainedPrior:
        """The prior of u."""
        latent = [(self.priors.variance, 0.0)] * self.n_latent + [
            (self.priors.lengthscale, 0.0)
        ] * self.n_latent
        noise = [(self.priors.noise, NOISE_FLOOR)] * self.n_outputs
        return UnconstrainedPrior(latent + noise, [self.priors.mixing] * self.n_weights)

    def draw_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return n draws of u from the prior, [n, d]."""
        return self.prior.draw(rng, n)

    def log_prior(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log prior + log |Jacobian| [S] and its gradient with respect to u [S, d]."""
        return self.prior.log_density(u)

    def constrain(self, u: FloatArray) -> Parameters:
        """Return the hyperparameters of u [S, d] by name."""
        return self.split(self.prior.constrain(u))

    def split(self, x: FloatArray) -> Parameters:
        """Return the columns of x [S, d], in the order of u, by name; W is the identity where it is not free."""
        n_latent, n_outputs = self.n_latent, self.n_outputs
        edges = np.cumsum([n_latent, n_latent, n_outputs])
        variance, lengthscale, noise, weights = np.split(x, edges, axis=1)
        shape = (len(x), n_outputs, n_latent)
        W = weights.reshape(shape) if self.n_weights else np.broadcast_to(np.eye(n_outputs), shape)
        return Parameters(variance, lengthscale, noise, W)

    def join(self, parameters: Parameters) -> FloatArray:
        """Return the hyperparameters as one array [S, d] in the order of u, the inverse of `split`."""
        weights = parameters.W.reshape(len(parameters.W), -1) if self.n_weights else parameters.noise[:, :0]
        return np.hstack([parameters.variance, parameters.lengthscale, parameters.noise, weights])

    def unconstrain(self, parameters: Parameters) -> FloatArray:
        """Return u [S, d] of hyperparameters.

        Raises:
            ValueError: if a variance or lengthscale is not positive, or a noise variance not above 1e-6.
        """
        return self.prior.unconstrain(self.join(parameters))

    def likelihood(self, observations: Observations) -> Likelihood:
        """Return the log marginal likelihood of the observations as a function of u, zero if there are none.

        Raises:
            ValueError: if an observation's output is not one of 0, ..., P - 1.
        """
        return UnconstrainedLikelihood(self, self.constrained_likelihood(observations))

    def constrained_likelihood(
        self, observations: Observations
    ) -> CoregionalizationLikelihood | IndependentLikelihood:
        """Return the log marginal likelihood of the observations as a function of the constrained parameters.

        Raises:
            ValueError: if an observation's output is not one of 0, ..., P - 1.
        """
        p = observations.p
        if len(p) and not (p.min() >= 0 and p.max() < self.n_outputs):
            raise ValueError(f"outputs {p.min()} to {p.max()} observed; the model has {self.n_outputs}")
        if self.mixing == "identity" or not len(observations):
            return IndependentLikelihood(observations, self.n_outputs, self.kernel)
        return CoregionalizationLikelihood(observations, self.n_outputs, self.n_latent, self.kernel)

    def covariance(
        self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray, p2: IntArray
    ) -> FloatArray:
        """Return cov(f_p(x), f_p2(x2)) between listed pairs, [S, N, N2]."""
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
        # blocks of columns, then of hyperparameter vectors, whose work arrays stay in the cache
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
        """Return cov(f_p(x), f_q(x)) at one input, the same everywhere, [S, P, P]."""
        parameters = self.constrain(u)
        found: FloatArray = (parameters.W * parameters.variance[:, None]) @ parameters.W.swapaxes(1, 2)
        return found

    def noise(self, u: FloatArray) -> FloatArray:
        """Return the noise variances [S, P]."""
        return self.constrain(u).noise


def _distinct(X: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct rows of X and where each row of X is among them; X itself if no row repeats."""
    distinct, where = np.unique(X, axis=0, return_inverse=True)
    return (X, np.arange(len(X))) if len(distinct) == len(X) else (distinct, where.reshape(-1))
