"""Small checks beside the toy curves: independent GPs as an LMC with W = I, cost of the likelihood, the priors."""

from __future__ import annotations

import time

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.active_learning.toy.plan import CostTask, IdentityTask
from gpsuite.experiments.base import Outcome, Report, SharedWork, Task
from gpsuite.methods.active_learning.pipelines import Mixing
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.coregionalization_likelihood import Parameters
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.priors import HyperPriors

ROWS, GRID = 30, 50  # of the comparison of predictions


COST_VECTORS, COST_REPEATS = 8, 3


DENSITY_POINTS = 400


DENSITIES = {
    "variance": ("variance of a latent process", 10.0),
    "lengthscale": ("lengthscale", 8.0),
    "noise": ("noise variance", 3.0),
    "mixing": ("weight W", 7.0),
}


def run_identity(task: Task[IdentityTask], shared: SharedWork) -> Outcome:
    """Compare predictions of independent GPs with those of an LMC with W = I."""
    error = identity_error(np.random.default_rng(task.params.seed), task.params.n_outputs)
    return Outcome({"max_relative_error": error}, headline=f"relative error {error:.1e}")


def run_cost(task: Task[CostTask], shared: SharedWork) -> Outcome:
    """Time the likelihood of both models."""
    rng, sizes, n_outputs = np.random.default_rng(task.params.seed), task.params.sizes, task.params.n_outputs
    mixings: tuple[Mixing, ...] = ("free", "identity")
    seconds = {
        f"seconds_{mixing}": np.array([likelihood_seconds(rng, size, n_outputs, mixing) for size in sizes])
        for mixing in mixings
    }
    return Outcome({}, arrays={"sizes": np.array(sizes), **seconds}, headline=f"{len(sizes)} sizes")


def identity_error(rng: np.random.Generator, n_outputs: int) -> float:
    """Return the largest relative difference of predictions by an LMC with W = I and by one GP per output.

    Means and variances at random inputs, hyperparameters drawn from the prior; relative to the largest of each.
    """
    joint = LinearCoregionalization(n_outputs)
    observations = _observations(rng, ROWS, n_outputs)
    X = rng.uniform(-2.0, 2.0, (GRID, 1))
    drawn = joint.constrain(joint.draw_prior(rng, 1))
    eye = np.broadcast_to(np.eye(n_outputs), (1, n_outputs, n_outputs)).copy()
    values = Parameters(drawn.variance, drawn.lengthscale, drawn.noise, eye)
    together = _predict(joint, joint.unconstrain(values), observations, X)
    single = LinearCoregionalization(1, mixing="identity")
    errors = []
    for p in range(n_outputs):
        own = observations.p == p
        part = Observations(observations.X[own], np.zeros(own.sum(), dtype=np.int64), observations.y[own])
        each = Parameters(
            values.variance[:, [p]], values.lengthscale[:, [p]], values.noise[:, [p]], np.ones((1, 1, 1))
        )
        alone = _predict(single, single.unconstrain(each), part, X)
        for all_outputs, one in zip(together, alone, strict=True):
            errors.append(np.abs(all_outputs[:, p] - one[:, 0]).max() / np.abs(one).max())
    return float(max(errors))


def likelihood_seconds(rng: np.random.Generator, size: int, n_outputs: int, mixing: str) -> float:
    """Return the shortest measured seconds of one likelihood with its gradient, per hyperparameter vector."""
    model = LinearCoregionalization(n_outputs, mixing=mixing)
    likelihood = model.likelihood(_observations(rng, size, n_outputs))
    u = model.draw_prior(rng, COST_VECTORS)
    taken = []
    for _ in range(COST_REPEATS):
        begun = time.perf_counter()
        likelihood.value_and_gradient(u)
        taken.append(time.perf_counter() - begun)
    return min(taken) / COST_VECTORS


def _observations(rng: np.random.Generator, size: int, n_outputs: int) -> Observations:
    X = rng.uniform(-2.0, 2.0, (size, 1))
    return Observations(
        X, np.arange(size) % n_outputs, np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(size)
    )


def _predict(
    model: MultiOutputModel, u: FloatArray, observations: Observations, X: FloatArray
) -> tuple[FloatArray, FloatArray]:
    predictions = PoolPredictions(model, u, observations, X)
    return predictions.mean[0], predictions.variance[0]


def draw_priors(report: Report[object]) -> None:
    """Draw the densities of the hyperparameters' priors (Li et al. 2022, Fig. 3)."""
    import pandas as pd

    priors = HyperPriors()
    frames = []
    with report.figure("toy_priors", columns=len(DENSITIES), size=(3.0 * len(DENSITIES), 2.9)) as drawing:
        for ax, (kind, (label, end)) in zip(drawing.axes, DENSITIES.items(), strict=True):
            prior = getattr(priors, kind)
            low = -end if kind == "mixing" else end / DENSITY_POINTS
            x = np.linspace(low, end, DENSITY_POINTS)
            density = np.exp(prior.log_density(x))
            ax.plot(x, density)
            ax.set_xlabel(label)
            frames.append(pd.DataFrame({"hyperparameter": kind, "value": x, "density": density}))
        drawing.ax.set_ylabel("prior density")
        drawing.data = pd.concat(frames, ignore_index=True)
