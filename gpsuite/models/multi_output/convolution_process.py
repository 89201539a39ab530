"""Convolution process with Gaussian smoothing: outputs that see the same latent processes through their own blur.

f_p = sum_l G_pl * g_l with G_pl proportional to N(. | 0, A_p^-1) and latent covariances proportional to
N(x - x' | 0, Lambda_l^-1), so that cov(f_p(x), f_q(x')) is a sum of N(x - x' | 0, A_p^-1 + A_q^-1 + Lambda_l^-1)
(Alvarez and Lawrence 2011; Li, Rakitsch and Zimmer 2022, App. G and H). NumPy, for many
hyperparameter vectors at once. `gpsuite.data.generators.gp_samples.convolution_covariance` takes general matrices.

Equation: Li et al. 2022, Eq. (25)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.multi_output.convolution_likelihood import ConvolutionLikelihood, ConvolutionParameters
from gpsuite.models.multi_output.latent_kernels import CHUNK, squared_distances
from gpsuite.models.multi_output.observations import Likelihood, Observations
from gpsuite.models.multi_output.unconstrained_likelihood import UnconstrainedLikelihood
from gpsuite.models.sampling.priors import NOISE_FLOOR, Gamma, HyperPriors, UnconstrainedPrior

SMOOTHING_PRIOR = Gamma(
    1.5, 3.0
)  # mean 1/2, a third of the lengthscales' prior mean: most of it is no more than a blur


@dataclass(frozen=True)
class ConvolutionProcess:
    """Gaussian convolution process with isotropic smoothing and latent kernels; implements `MultiOutputModel`.

    With A_p = I / s_p^2, Lambda_l = I / l_l^2, a_pl = 2 s_p^2 + l_l^2 and T = s_p^2 + s_q^2 + l_l^2:

        cov(f_p(x), f_q(x')) = sum_l W_pl W_ql v_l (sqrt(a_pl a_ql) / T)^(D/2) exp(-|x - x'|^2 / (2 T)).

    Smoothing kernels are scaled so that var f_p = sum_l W_pl^2 v_l whatever the widths and D: W and v mean, and have
    the same priors as, in the linear model of coregionalisation with squared exponential kernels, to which the
    process tends as the widths s_p go to 0. In the paper's notation, with normal densities, c_l N(0 | 0, Lambda_l^-1)
    = v_l and its weights are W_pl (a_pl / l_l^2)^(D/4).

    The order of u: latent variances [L], lengthscales [L], noise variances [P], smoothing widths [P], weights W [P, L]
    row by row. Softplus makes the positive ones (noise: 1e-6 + softplus); weights are unchanged.

    Attributes:
        n_outputs: P.
        n_inputs: D; it enters the covariance between outputs.
        n_latent: number L of latent processes (default: P).
        priors: of the hyperparameters that the linear model of coregionalisation has too.
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
        """Length d of u."""
        return 2 * self.n_latent + 2 * self.n_outputs + self.n_outputs * self.n_latent

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the d constrained parameters, in the order of u."""
        latent, outputs = range(self.n_latent), range(self.n_outputs)
        of_latent = [f"{name}_{i}" for name in ("variance", "lengthscale") for i in latent]
        of_outputs = [f"{name}_{p}" for name in ("noise", "smoothing") for p in outputs]
        return (*of_latent, *of_outputs, *(f"W_{p}{i}" for p in outputs for i in latent))

    @cached_property
    def prior(self) -> UnconstrainedPrior:
        """The prior of u."""
        latent = [(self.priors.variance, 0.0)] * self.n_latent
        latent += [(self.priors.lengthscale, 0.0)] * self.n_latent
        outputs = [(self.priors.noise, NOISE_FLOOR)] * self.n_outputs + [
            (self.smoothing, 0.0)
        ] * self.n_outputs
        return UnconstrainedPrior(latent + outputs, [self.priors.mixing] * (self.n_outputs * self.n_latent))

    def draw_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return n draws of u from the prior, [n, d]."""
        return self.prior.draw(rng, n)

    def log_prior(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log prior + log |Jacobian| [S] and its gradient with respect to u [S, d]."""
        return self.prior.log_density(u)

    def constrain(self, u: FloatArray) -> ConvolutionParameters:
        """Return the hyperparameters of u [S, d] by name."""
        edges = np.cumsum([self.n_latent, self.n_latent, self.n_outputs, self.n_outputs])
        variance, lengthscale, noise, smoothing, weights = np.split(self.prior.constrain(u), edges, axis=1)
        W = weights.reshape(len(u), self.n_outputs, self.n_latent)
        return ConvolutionParameters(variance, lengthscale, noise, smoothing, W)

    def join(self, parameters: ConvolutionParameters) -> FloatArray:
        """Return the hyperparameters, or derivatives with respect to them, as one array [S, d] in the order of u."""
        return np.hstack([each.reshape(len(each), -1) for each in vars(parameters).values()])

    def unconstrain(self, parameters: ConvolutionParameters) -> FloatArray:
        """Return u [S, d] of hyperparameters.

        Raises:
            ValueError: if a variance, lengthscale or width is not positive, or a noise variance not above 1e-6.
        """
        return self.prior.unconstrain(self.join(parameters))

    def likelihood(self, observations: Observations) -> Likelihood:
        """Return the log marginal likelihood of the observations as a function of u, zero if there are none.

        Raises:
            ValueError: if an observation's output is not one of 0, ..., P - 1, or its input not of D numbers.
        """
        p = observations.p
        if len(p) and not (p.min() >= 0 and p.max() < self.n_outputs):
            raise ValueError(f"outputs {p.min()} to {p.max()} observed; the model has {self.n_outputs}")
        self._check_inputs(observations.X)
        if not len(observations):
            return UnconstrainedLikelihood(self, None)
        found = ConvolutionLikelihood(observations, self.n_outputs, self.n_latent)
        return UnconstrainedLikelihood(self, found)

    def covariance(
        self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray, p2: IntArray
    ) -> FloatArray:
        """Return cov(f_p(x), f_p2(x2)) between listed pairs, [S, N, N2]."""
        found = np.empty((len(u), len(X), len(X2)))
        for q in np.unique(p2):
            here = np.flatnonzero(p2 == q)
            found[:, :, here] = self._with_output(self.constrain(u), X, p, X2[here], int(q))
        return found

    def cross_covariance(self, u: FloatArray, X: FloatArray, p: IntArray, X2: FloatArray) -> FloatArray:
        """Return cov(f_p(x), f_q(x2)) for every output q, [S, N, N2, P]."""
        parameters = self.constrain(u)
        found = np.empty((len(u), len(X), len(X2), self.n_outputs))
        for q in range(self.n_outputs):
            found[..., q] = self._with_output(parameters, X, p, X2, q)
        return found

    def prior_covariance(self, u: FloatArray) -> FloatArray:
        """Return cov(f_p(x), f_q(x)) at one input, the same everywhere, [S, P, P]."""
        parameters = self.constrain(u)
        found = np.empty((len(u), self.n_outputs, self.n_outputs))
        for p in range(self.n_outputs):
            for q in range(p + 1):
                weights = parameters.W[:, p] * parameters.W[:, q] * parameters.overlap(p, q, self.n_inputs)
                found[:, p, q] = found[:, q, p] = weights.sum(axis=1)
        return found

    def noise(self, u: FloatArray) -> FloatArray:
        """Return the noise variances [S, P]."""
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
            raise ValueError(f"inputs have {X.shape[1]} columns; the model has {self.n_inputs}")
