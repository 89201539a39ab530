"""Choice of the most informative measurement: predictive entropies, and the choice among allowed queries.

Equation: Li et al. 2022, Eq. (7), Eq. (9)
Equation: Li et al. 2022, Sec. 5
Equation: Li et al. 2022, Sec. 5, App. I
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.models.multi_output.convolution import ConvolutionProcess
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import MultiOutputModel
from gpsuite.models.sampling.posterior import mixture_log_density, mixture_moments, normal_log_density
from gpsuite.models.sampling.priors import HyperPriors

LOG_2PI_E = math.log(2.0 * math.pi * math.e)
Mixing = Literal["free", "identity", "convolution"]
Acquisition = Literal["entropy", "random"]
Queries = Literal["partial", "full"]
Kernel = Literal["matern52", "squared_exponential"]
Convention = Literal["mixture", "moment_matched", "last_noise"]


def entropy(variance: FloatArray) -> FloatArray:
    """Return the entropy ½ log(2πe σ²) of each single output, in nats. It is -inf if rounding left no variance.

    Equation: Li et al. 2022, Eq. (7)
    """
    with np.errstate(divide="ignore"):
        return np.asarray(0.5 * (LOG_2PI_E + np.log(np.maximum(variance, 0.0))))


def joint_entropy(covariance: FloatArray) -> FloatArray:
    """Return the entropy ½ log((2πe)^P det Σ) of Σ [..., P, P], in nats, -inf if Σ is not positive definite.

    Equation: Li et al. 2022, Eq. (7)
    """
    outputs = covariance.shape[-1]
    with np.errstate(invalid="ignore"):  # NaN is allowed
        log_determinant = np.linalg.slogdet(covariance)[1]
        # with two negative eigenvalues the determinant is positive, but not all leading principal minors
        signs = [np.linalg.slogdet(covariance[..., :size, :size])[0] for size in range(1, outputs + 1)]
    joint = 0.5 * (outputs * LOG_2PI_E + log_determinant)
    # A comparison with NaN is false, so NaN stays NaN.
    return np.where(np.any(np.array(signs) <= 0.0, axis=0), -np.inf, joint)


def choose(score: FloatArray, allowed: BoolArray) -> tuple[int, ...] | None:
    """Return the index of the largest score [n, P] or [n] among the allowed ones, None if none is allowed.

    Among equal scores the lowest index wins, in the order of rows. So the same data give the same query. A NaN is never
    chosen.

    Raises:
        ValueError: if the shapes differ.

    Equation: Li et al. 2022, Eq. (9)
    """
    if score.shape != allowed.shape:
        raise ValueError(f"scores {score.shape} and allowed {allowed.shape} must have the same shape")
    candidates = np.flatnonzero(allowed & ~np.isnan(score))
    if not candidates.size:
        return None
    return _index(candidates[np.argmax(score.flat[candidates])], score.shape)


def draw(allowed: BoolArray, rng: np.random.Generator) -> tuple[int, ...] | None:
    """Return the index of a random allowed candidate [n, P] or [n], all equally likely. None if none is allowed."""
    candidates = np.flatnonzero(allowed)
    return _index(rng.choice(candidates), allowed.shape) if candidates.size else None


def _index(position: np.int64, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(position, shape))


@dataclass(frozen=True)
class Pipeline:
    """A model of the outputs, a rule for the next query, and whether queries must be safe.

    Attributes:
        mixing: `free` is the linear model of coregionalization with L = P, `identity` independent processes,
            `convolution` the convolution process of the paper's section G.
        acquisition: `entropy` takes the largest predictive entropy, Eq. (7). `random` any allowed query.
        safe: whether only queries that are probably safe are allowed. If not, no safety model is trained.
        queries: `partial` measures one output per query, `full` all P.
        kernel: kernel of the latent processes and of the safety model. The convolution process has its own.

    Raises:
        ValueError: if one of the names is unknown, or `safe` is not true or false.
    """

    name: str
    mixing: Mixing = "free"
    acquisition: Acquisition = "entropy"
    safe: bool = True
    queries: Queries = "partial"
    kernel: Kernel = "matern52"
    priors: HyperPriors = field(default_factory=HyperPriors)

    def __post_init__(self) -> None:
        names = {"mixing": Mixing, "acquisition": Acquisition, "queries": Queries, "kernel": Kernel}
        for field_name, known in names.items():
            if getattr(self, field_name) not in get_args(known):
                allowed = ", ".join(get_args(known))
                raise ValueError(f"{field_name}={getattr(self, field_name)!r}: must be one of {allowed}")
        if not isinstance(self.safe, bool):
            raise ValueError(f"safe={self.safe!r}: must be true or false")

    def output_model(self, n_outputs: int, n_inputs: int) -> MultiOutputModel:
        if self.mixing == "convolution":
            return ConvolutionProcess(n_outputs, n_inputs, priors=self.priors)
        return LinearCoregionalization(n_outputs, mixing=self.mixing, kernel=self.kernel, priors=self.priors)

    def safety_model(self) -> LinearCoregionalization:
        return LinearCoregionalization(1, mixing="identity", kernel=self.kernel, priors=self.priors)


PIPELINES: dict[str, Pipeline] = {
    pipeline.name: pipeline
    for pipeline in (
        Pipeline("AL_MOGP"),
        Pipeline("RS_MOGP", acquisition="random"),
        Pipeline("AL_indGPs", mixing="identity"),
        Pipeline("AL_MOGP_nosafe", safe=False),
    )
}
"""The four of the paper, by its names."""


def rmse(mean: FloatArray, Y: FloatArray) -> float:
    """Return the root mean square error, averaged over the outputs: each has the same share, in its own units.

    Raises:
        ValueError: if the shapes differ or there is nothing to compare.
    """
    if mean.shape != Y.shape or not Y.size:
        raise ValueError(f"predictions {mean.shape} and targets {Y.shape}: must have the same shape, not empty")
    return float(np.sqrt(((mean - Y) ** 2).mean(axis=0)).mean())


def log_densities(
    Y: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    noise: FloatArray,
    weights: FloatArray,
    convention: Convention = "mixture",
) -> FloatArray:
    """Return the predictive log density of each measured value, [n, P].

    Args:
        Y: measured values [n, P].
        mean: means of the noise-free outputs for each of S hyperparameter vectors, [S, n, P].
        variance: variances of the noise-free outputs, [S, n, P].
        noise: variances of the noise, [S, P].
        convention: `mixture`: log density of the mixture. `moment_matched`: of the normal distribution of its moments,
            noise included. `last_noise`: as `moment_matched` with the last hyperparameter vector's noise, as the
            paper's authors compute it.
    """
    if convention == "mixture":
        return mixture_log_density(Y, mean, variance, noise, weights)
    centre, spread = mixture_moments(mean, variance, weights)
    added = noise[-1] if convention == "last_noise" else weights @ noise
    return normal_log_density(Y, centre, spread + added)


def safety_precision(marked: BoolArray, safe: BoolArray) -> float:
    """Return the share of truly safe inputs among the inputs that the model marks safe. NaN if it marks none."""
    return float(safe[marked].mean()) if marked.any() else float("nan")


def safe_query_percent(safe: BoolArray) -> float:
    """Return the percentage of safe queries from a mask of the safe ones, [K]. NaN without queries."""
    return 100.0 * float(safe.mean()) if safe.size else float("nan")
