"""Hyperparameters of safe active learning: sequential Monte Carlo against the paper's HMC, and what both are made of.

One model is one posterior of the hyperparameters: SMC's cost is that of many successive ones, HMC's that of one, so
that the ratio over the number of models is that of an iteration. Both call the same likelihood. Before they are timed,
both are compared with a larger run: the root mean square over the identified quantities of the difference of the
means, in posterior standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.bench.timing import BenchCase, Work
from gpsuite.experiments.active_learning.exploration import oracle_of, problem_of
from gpsuite.experiments.active_learning.repetitions import (
    GpData,
    Repetition,
    Samples,
    ToyData,
    gp_repetition,
    toy_repetition,
)
from gpsuite.methods.active_learning.acquisition import PIPELINES
from gpsuite.methods.active_learning.exploration import explore
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Likelihood, MultiOutputModel, Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.hamiltonian import HMCSettings, identified_quantities, sample_hmc
from gpsuite.models.sampling.posterior import HyperPosterior
from gpsuite.models.sampling.priors import NOISE_FLOOR
from gpsuite.models.sampling.sequential_monte_carlo import NewObservations, SMCSettings, SMCState, start, update
from gpsuite.seeds import stream

PIPELINE = PIPELINES["AL_MOGP"]
DELTA = 0.05
PARTICLES = 128
FASTER = 25  # SMC than HMC, per observation
TOLERANCE = 0.35  # of a posterior's means. One run of either sampler is about 0.1 away
HMC = HMCSettings()

FLOOR_ROWS, FLOOR_GOAL = 107, 3.0
COMPILED_ROWS, COMPILED_GOAL = 42, 0.6
AGREEMENT = 1e-9  # relative, of value and gradient

POOL_ROWS, POOL_OUTPUTS, POOL_OBSERVATIONS = 2000, 4, 100
POOL_MEMBERS = 16
POOL_GOAL = 1 / 15


@dataclass(frozen=True)
class Comparison:
    """SMC over successive observations against one run of HMC.

    Attributes:
        problem: `toy` (P = 2) or `gp_samples` (P = 4).
        N: observations that HMC gets.
        first: observations of the cloud before the first update.
        last: after the last one. Some updates only change weights, some move the cloud: a stretch has both.
        cold: whether drawing this cloud from the prior is timed, too: what the first iteration does.
        reference_particles: of the run that both are compared with.
    """

    problem: str
    N: int
    first: int
    last: int
    cold: bool = False
    reference_particles: int = 1024

    @property
    def models(self) -> int:
        """Number of posteriors that SMC gives."""
        return self.last - self.first + int(self.cold)


COMPARISONS = (
    Comparison("toy", 12, 12, 22, cold=True),
    Comparison("toy", 22, 12, 32),
    Comparison("toy", 42, 32, 52),
    Comparison("gp_samples", 100, 90, 110, reference_particles=256),
)


def cases() -> list[BenchCase]:
    """Return the cases: the samplers at four sizes, the likelihood with its gradient, the pool's predictions."""
    found = [_samplers(each) for each in COMPARISONS]
    likelihood = f"log likelihood + gradient, {PARTICLES} particles, P=2"
    floor, compiled = partial(_against, FLOOR_ROWS, _floor), partial(_against, COMPILED_ROWS, _compiled)
    found.append(BenchCase(f"{likelihood}, N={FLOOR_ROWS}", "floor: dpotrf + dpotri each", floor, FLOOR_GOAL))
    batch = "compiled TensorFlow batch, equal to 1e-9"
    found.append(BenchCase(f"{likelihood}, N={COMPILED_ROWS}", batch, compiled, COMPILED_GOAL))
    pool = f"pool predictions + one row, N={POOL_OBSERVATIONS}, {POOL_ROWS} inputs, P={POOL_OUTPUTS}"
    found.append(BenchCase(pool, "recomputed, equal to rounding", _pool, POOL_GOAL))
    return found


def _samplers(comparison: Comparison) -> BenchCase:
    P = {"toy": 2, "gp_samples": 4}[comparison.problem]
    cold = " from the prior" if comparison.cold else ""
    return BenchCase(
        f"SMC, {comparison.models} models{cold}, N={comparison.first}..{comparison.last}, P={P}",
        f"the paper's HMC ({HMC.transitions} transitions), 1 model, N={comparison.N}. Equal accuracy checked",
        partial(_both_samplers, comparison),
        comparison.models / FASTER,
        pairs=1,
    )


def _both_samplers(comparison: Comparison) -> tuple[Work, Work]:
    """Return a stretch of SMC updates and one run of HMC.

    Raises:
        ArithmeticError: if the mean of one of them is not that of a larger run.
    """
    observations = _queried(comparison.problem)
    model = PIPELINE.output_model(int(observations.p.max()) + 1, observations.X.shape[1])
    _check_accuracy(model, observations, comparison)
    likelihood = model.likelihood(_head(observations, comparison.N))
    cloud = None if comparison.cold else _started(model, _head(observations, comparison.first))

    def ours() -> SMCState:
        begun = _started(model, _head(observations, comparison.first)) if cloud is None else cloud
        return _followed(begun, model, _head(observations, comparison.last), comparison.first)

    return ours, lambda: sample_hmc(model, likelihood, stream(0, "bench", "hmc"), HMC)


@cache
def _queried(problem: str) -> Observations:
    """Return starting measurements and queries of one repetition, in the order of an exploration."""
    last = max(each.last for each in COMPARISONS if each.problem == problem)
    repetition, particles = REPETITIONS[problem]()
    task = problem_of(repetition, DELTA)
    settings = InferenceSettings(smc=SMCSettings(particles=particles))
    iterations = last - len(task.outputs)
    rng = stream(0, "bench", problem)
    steps = list(explore(task, PIPELINE, oracle_of(repetition), rng, iterations, settings, "safest"))
    X, p, y = (np.array([getattr(step, name) for step in steps]) for name in ("x", "p", "y"))
    return task.outputs.extended(X, p, y)


def _toy() -> tuple[Repetition, int]:
    data = ToyData(seed=0, form="paper", initial=12, pool_rows=200, unequal="equal", offers="pairs")
    return toy_repetition(data, "partial"), PARTICLES


def _gp_samples() -> tuple[Repetition, int]:
    """Return a draw with a small pool, for a cloud of few particles: only its queries are used."""
    samples = Samples(seed=1, draws=1, n_train=300, n_test=50, n_outputs=4, form="code", process="lmc")
    data = GpData(seed=0, draw=0, initial=40, offers="pairs", samples=samples)
    return gp_repetition(data, "partial"), 64


REPETITIONS: dict[str, Callable[[], tuple[Repetition, int]]] = {"toy": _toy, "gp_samples": _gp_samples}


def _head(observations: Observations, n: int) -> Observations:
    return Observations(observations.X[:n], observations.p[:n], observations.y[:n])


def _started(model: MultiOutputModel, observations: Observations, particles: int = PARTICLES) -> SMCState:
    settings = SMCSettings(particles=particles)
    return start(model, model.likelihood(observations), stream(0, "bench", "start", particles), settings)


def _followed(state: SMCState, model: MultiOutputModel, observations: Observations, first: int) -> SMCState:
    """Return the cloud after all observations, taken in one by one from the `first` on."""
    rng, settings = stream(0, "bench", "update"), SMCSettings(particles=len(state.u))
    likelihood = model.likelihood(_head(observations, first))
    for n in range(first + 1, len(observations) + 1):
        previous, likelihood = likelihood, model.likelihood(_head(observations, n))
        predictive = likelihood.value(state.u) - state.lml
        state = update(state, model, NewObservations(previous, likelihood, predictive), rng, settings)
    return state


def _check_accuracy(model: MultiOutputModel, observations: Observations, comparison: Comparison) -> None:
    known = _head(observations, comparison.N)
    likelihood = model.likelihood(known)
    reference = _started(model, known, comparison.reference_particles).posterior
    begun = _started(model, _head(observations, comparison.first))
    found = {
        "SMC": _followed(begun, model, known, comparison.first).posterior,
        "HMC": sample_hmc(model, likelihood, stream(0, "bench", "hmc"), HMC),
    }
    for sampler, posterior in found.items():
        deviation = mean_deviation(model, likelihood, posterior, reference)
        if not deviation <= TOLERANCE:
            raise ArithmeticError(
                f"{sampler} at N={comparison.N}: means {deviation:.2f} posterior standard deviations from those of "
                f"{comparison.reference_particles} particles. At most {TOLERANCE:g} is Monte Carlo error"
            )


def mean_deviation(
    model: MultiOutputModel, likelihood: Likelihood, posterior: HyperPosterior, reference: HyperPosterior
) -> float:
    """Return the root mean square, over the identified quantities, of how far means differ from the reference's.

    Args:
        model: of both.
        likelihood: of both.
        posterior: one run.
        reference: a larger one, whose standard deviations are the unit.
    """
    values, expected = (identified_quantities(model, likelihood, each.u) for each in (posterior, reference))
    centre = reference.weights @ expected
    spread = np.sqrt(reference.weights @ (expected - centre) ** 2)
    return float(np.sqrt(np.mean(((posterior.weights @ values - centre) / spread) ** 2)))


def _against(
    rows: int, reference: Callable[[LinearCoregionalization, Observations, FloatArray], Work]
) -> tuple[Work, Work]:
    """Return the likelihood with gradient at all particles, and a reference's work on the same."""
    model, rng = LinearCoregionalization(2), stream(0, "bench", rows)
    observations = _observations(rng, rows, 2)
    u = 0.5 * rng.standard_normal((PARTICLES, model.n_parameters))
    return partial(model.likelihood(observations).value_and_gradient, u), reference(model, observations, u)


def _observations(rng: np.random.Generator, n: int, n_outputs: int) -> Observations:
    X, p = rng.uniform(-2.0, 2.0, (n, 2)), np.arange(n) % n_outputs
    return Observations(X, p, np.sin(2.0 * X[:, 0] + p) + 0.3 * rng.standard_normal(n))


def _floor(model: LinearCoregionalization, observations: Observations, u: FloatArray) -> Work:
    """Return the least work of all particles' likelihoods and gradients: factorise, invert."""
    from scipy.linalg.lapack import dpotrf, dpotri

    X, p = observations.X, observations.p
    matrix = np.asfortranarray(model.covariance(u[:1], X, p, X, p)[0] + np.eye(len(p)))
    buffer = np.empty_like(matrix)

    def work() -> None:
        for _ in range(len(u)):
            buffer[...] = matrix
            factor, _ = dpotrf(buffer, lower=1, clean=0, overwrite_a=1)
            dpotri(factor, lower=1, overwrite_c=1)

    return work


def _compiled(model: LinearCoregionalization, observations: Observations, u: FloatArray) -> Work:
    """Return value and gradient of all particles by one compiled TensorFlow function.

    Raises:
        ArithmeticError: if they are not ours.
    """
    from gpsuite.models.tensorflow_setup import configure

    configure()
    import tensorflow as tf

    log_likelihood = _tensorflow_batch(model, observations)

    @tf.function  # type: ignore[untyped-decorator]
    def both(points: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(points)
            value = log_likelihood(points)
        return value, tape.gradient(value, points)

    points = tf.constant(u)
    ours = model.likelihood(observations).value_and_gradient(u)
    for mine, theirs in zip(ours, both(points), strict=True):
        if not np.allclose(mine, theirs.numpy(), rtol=AGREEMENT, atol=AGREEMENT):
            raise ArithmeticError("TensorFlow's likelihoods and gradients are not ours")
    return partial(both, points)


def _tensorflow_batch(model: LinearCoregionalization, observations: Observations) -> Callable[[Any], Any]:
    """Return the log marginal likelihood [S] as a function of a tensor u [S, d], with Matern 5/2 latent kernels.

    Of several ways to write it this one was the fastest: an unrolled sum over latent processes, dense products in
    place of gathers, the density's own gradient.
    """
    import tensorflow as tf

    P, L = model.n_outputs, model.n_latent
    member = tf.constant(np.eye(P)[observations.p])
    distances = np.sqrt(5.0) * np.linalg.norm(observations.X[:, None] - observations.X[None], axis=2)
    log_density = _tensorflow_density(observations.y)

    def log_likelihood(u: Any) -> Any:
        variance, lengthscale, noise, weights = tf.split(u, [L, L, P, P * L], axis=1)
        variance, lengthscale = tf.math.softplus(variance), tf.math.softplus(lengthscale)
        W = tf.matmul(member, tf.reshape(weights, (-1, P, L)))
        K = tf.linalg.diag(tf.matmul(NOISE_FLOOR + tf.math.softplus(noise), member, transpose_b=True))
        for i in range(L):
            a = distances / lengthscale[:, i, None, None]
            scaled = (W[:, :, i] * variance[:, i, None])[:, :, None]
            K += tf.matmul(scaled, W[:, None, :, i]) * ((1.0 + a + a * a / 3.0) * tf.exp(-a))
        return log_density(K)

    return log_likelihood


def _tensorflow_density(y: FloatArray) -> Callable[[Any], Any]:
    """Return log N(y | 0, K) [S] as a function of a tensor K [S, N, N]. One batched Cholesky and inverse."""
    import tensorflow as tf

    column, constant = tf.constant(y[:, None]), 0.5 * len(y) * np.log(2.0 * np.pi)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def log_density(K: Any) -> Any:
        lower = tf.linalg.cholesky(K)
        inverse = tf.linalg.triangular_solve(lower, tf.eye(len(y), dtype=K.dtype) + tf.zeros_like(K))
        half = tf.matmul(inverse, column)
        half_log_det = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(lower)), axis=1)

        def gradient(upstream: Any) -> Any:
            alpha = tf.matmul(inverse, half, transpose_a=True)
            outer = tf.matmul(alpha, alpha, transpose_b=True)
            return 0.5 * upstream[:, None, None] * (outer - tf.matmul(inverse, inverse, transpose_a=True))

        return -0.5 * tf.reduce_sum(half * half, axis=(1, 2)) - half_log_det - constant, gradient

    found: Callable[[Any], Any] = log_density
    return found


def _pool() -> tuple[Work, Work]:
    """Return taking one observation into a pool's predictions, and computing them again with it."""
    model, rng = LinearCoregionalization(POOL_OUTPUTS), stream(0, "bench", "pool")
    longer = _observations(rng, POOL_OBSERVATIONS + 1, POOL_OUTPUTS)
    known, last = _head(longer, POOL_OBSERVATIONS), slice(POOL_OBSERVATIONS, None)
    u = 0.5 * rng.standard_normal((POOL_MEMBERS, model.n_parameters))
    X_pool = rng.uniform(-2.0, 2.0, (POOL_ROWS, 2))
    extended = PoolPredictions(model, u, known, X_pool, capacity=len(longer))
    fresh = PoolPredictions(model, u, longer, X_pool, capacity=len(longer))

    def ours() -> PoolPredictions:
        # every time the same last row: those above it, which its cost depends on, stay as they are
        extended.observations = known
        extended.extend(longer.X[last], longer.p[last], longer.y[last])
        return extended

    def recomputed() -> PoolPredictions:
        fresh.recompute(u, longer)
        return fresh

    return ours, recomputed
