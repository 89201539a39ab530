"""Settings of active_learning/toy."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.sin_sigmoid import STEEPNESS
from gpsuite.experiments.active_learning.curves import AL, Curves
from gpsuite.experiments.active_learning.exploration import (
    INFERENCES,
    ActiveSettings,
    Axes,
    RepetitionSet,
    RepetitionSettings,
    Source,
    repetition_seed,
    repetition_tasks,
)
from gpsuite.experiments.active_learning.repetitions import EQUAL, TOY_OUTPUTS, ToyData
from gpsuite.experiments.base import Outcome, Record, Report, Request, SharedWork, Task
from gpsuite.experiments.settings import Count, Rule, at_least, one_of
from gpsuite.experiments.tasks import choice
from gpsuite.methods.active_learning.acquisition import Mixing
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.priors import HyperPriors
from gpsuite.seeds import derived_seed

SECONDS = 0.045  # of one iteration


factor_of_priors = Rule(
    lambda factor: 0 < factor < math.inf and factor != 1.0, "must be above 0, and not 1: that is the published prior"
)


@dataclass
class ToyRepetitions(RepetitionSettings):
    """Settings of repetitions on sine and sigmoid.

    Attributes:
        form: form of the sigmoid, 1 / (1 + exp(-s x)): s = 2 (`paper`), or s = 1 (`code`, the authors').
        pool_rows: points of the grid that is pool and test set.
        state_iteration: iteration whose state is drawn, counted from 1.
    """

    form: Annotated[str, one_of(STEEPNESS)]
    pool_rows: Annotated[int, at_least(10)]
    state_iteration: Count

    def source(self, seed: int, unequal: str = EQUAL) -> Source:
        """Return the data of the repetitions; seed: the request's."""

        def data(repetition: int) -> ToyData:
            return ToyData(
                seed=repetition_seed(seed, "toy", repetition),
                initial=self.initial,
                offers=self.offers,
                form=choice(self.form, STEEPNESS),
                pool_rows=self.pool_rows,
                unequal=unequal,
            )

        return Source("toy", data, TOY_OUTPUTS, SECONDS, state_iteration=self.state_iteration)


@dataclass
class ToySettings(ToyRepetitions, ActiveSettings):
    """Settings of the toy problem.

    Attributes:
        compared: other kinds of inference, run with AL_MOGP for `compared_iterations`.
        compared_iterations: models per repetition that are compared.
        hmc_repetitions: repetitions of every pipeline with the paper's HMC.
        hmc_iterations: models per repetition that HMC infers, too. Each takes 23,800 gradients for the outputs and for
            safety.
        prior_factors: multiples of all hyperparameters whose priors AL_MOGP is run with next to the published ones.
        cost_sizes: numbers of values at which the likelihood is timed.
    """

    compared: list[Annotated[str, one_of(INFERENCES)]]
    compared_iterations: Count
    hmc_repetitions: Annotated[int, at_least(0)]
    hmc_iterations: Count
    prior_factors: list[Annotated[float, factor_of_priors]]
    cost_sizes: list[Annotated[int, at_least(4)]]


IDENTITY, COST = "identity_lmc", "likelihood_cost"  # checks


@dataclass(frozen=True)
class _PartNames:
    main: str = "pipelines"
    inference: str = "inference"
    hmc: str = "hmc"
    prior: str = "prior"


PARTS = _PartNames()


@dataclass(frozen=True)
class Parts:
    """The records of the experiment by what they are for.

    Attributes:
        main: every pipeline with the run's inference and the published priors.
        inferences: AL_MOGP by kind of inference, the run's first.
        hmc: every pipeline with the paper's HMC.
        priors: AL_MOGP by multiple of the hyperparameters in the prior, 1 is published.
        checks: check -> its record.
    """

    main: Curves
    inferences: Mapping[str, Curves]
    hmc: Curves
    priors: Mapping[float, Curves]
    checks: Mapping[str, Record]

    @classmethod
    def from_records(cls, records: Sequence[Record], methods: Sequence[str], inference: str) -> Parts:
        """Sort the records of the plan. `inference` is the run's kind."""

        def curves(part: str, **axes: str | float) -> Curves:
            chosen = [record for record in records if record.matches(part=part, **axes)]
            return Curves.from_records(chosen, methods)

        main = curves(PARTS.main)
        kinds = dict.fromkeys(str(r.axes["inference"]) for r in records if r.axes["part"] == PARTS.inference)
        factors = dict.fromkeys(float(r.axes["prior_factor"]) for r in records if r.axes["part"] == PARTS.prior)
        inferences = {inference: main} | {kind: curves(PARTS.inference, inference=kind) for kind in kinds}
        priors = {1.0: main} | {factor: curves(PARTS.prior, prior_factor=factor) for factor in factors}
        parts = (PARTS.main, PARTS.inference, PARTS.hmc, PARTS.prior)
        checks = {str(r.axes["part"]): r for r in records if r.axes["part"] not in parts}
        return cls(main, inferences, curves(PARTS.hmc), priors, checks)


CHECK_VERSION = 1


@dataclass(frozen=True)
class IdentityTask:
    """Predictions of independent GPs against those of an LMC with W = I."""

    seed: int
    n_outputs: int = TOY_OUTPUTS
    kind: str = IDENTITY


@dataclass(frozen=True)
class CostTask:
    """Seconds of the likelihood at several numbers of values."""

    seed: int
    sizes: Sequence[int]
    n_outputs: int = TOY_OUTPUTS
    kind: str = COST


def plan(request: Request[ToySettings]) -> list[Task[object]]:
    """Return the repetitions of every pipeline, those of other inference and priors, and the checks."""
    settings, source = request.settings, request.settings.source(request.seed)
    main = RepetitionSet({"part": PARTS.main, "inference": settings.inference, "prior_factor": 1.0})
    tasks = repetition_tasks(request, settings, source, main)
    for variation, methods in _variations(settings):
        if all(name in request.methods for name in methods):
            tasks += repetition_tasks(request, settings, source, variation, methods)
    return [*tasks, *_checks(request)]


def _variations(settings: ToySettings) -> Iterator[tuple[RepetitionSet, tuple[str, ...]]]:
    for kind in settings.compared:
        axes: dict[str, str | int | float] = {"part": PARTS.inference, "inference": kind, "prior_factor": 1.0}
        yield RepetitionSet(axes, kind, settings.compared_iterations, label=kind), (AL,)
    if settings.hmc_repetitions:
        axes = {"part": PARTS.hmc, "inference": "hmc", "prior_factor": 1.0}
        yield RepetitionSet(axes, "hmc", settings.hmc_iterations, settings.hmc_repetitions, label="hmc"), ()
    for factor in settings.prior_factors:
        axes = {"part": PARTS.prior, "inference": settings.inference, "prior_factor": factor}
        yield RepetitionSet(axes, prior_factor=factor, label=f"priors x {factor:g}"), (AL,)


def _checks(request: Request[ToySettings]) -> Iterator[Task[object]]:
    identity = IdentityTask(derived_seed(request.seed, IDENTITY))
    cost = CostTask(derived_seed(request.seed, COST), request.settings.cost_sizes)
    for check, label in ((identity, "independent GPs as an LMC"), (cost, "cost of the likelihood")):
        axes: Axes = {"method": "", "part": check.kind, "inference": "", "prior_factor": 1.0, "repetition": 0}
        yield request.task(check, label=label, axes=axes, version=CHECK_VERSION)


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

    Means and variances at random inputs, hyperparameters drawn from the prior. Relative to the largest of each.
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
        each = Parameters(values.variance[:, [p]], values.lengthscale[:, [p]], values.noise[:, [p]], np.ones((1, 1, 1)))
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
    return Observations(X, np.arange(size) % n_outputs, np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(size))


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
