"""The kernel models on one-dimensional data with Laplace noise: regions, and coverage of the ideal coefficients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, get_args

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators import FUNCTIONS, draw_noise
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Outcome, Record, Report, Request, SharedWork, Task
from gpsuite.experiments.perturbation.linear_models import check_levels, confidence_text, drawn_together
from gpsuite.experiments.settings import Positive, at_least, filled, one_of, unique
from gpsuite.experiments.tasks import INLINE, OPTIONAL, take
from gpsuite.methods.perturbation.quadratic import EpsilonSVR, KernelLasso, KernelLSSVM, KernelRidge, Objective
from gpsuite.methods.perturbation.ranks import SignChanges, simulated_ranks
from gpsuite.methods.perturbation.rays import KernelMetric
from gpsuite.methods.perturbation.region import ConfidenceRegion, ModelClass, confidence_region
from gpsuite.models.radial import kappa, squared_distances
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.significance import binomial_p, bonferroni_p

if TYPE_CHECKING:
    import pandas as pd
METRICS: tuple[KernelMetric, ...] = get_args(KernelMetric)
TRUTH, NOISE, NOISE_SCALE = "sin_2x", "laplace", 0.3  # of the dataset kernel_regression
REJECTED = 0.001  # two-sided binomial test, 99.9 %


@dataclass(frozen=True)
class KernelFamily:
    """A family of kernel models: its title, and its objective of a Gram matrix [n, n] and the family's numbers."""

    title: str
    objective: Callable[..., Objective]


FAMILIES = {
    "lssvm": KernelFamily("LS-SVM", KernelLSSVM),
    "krr": KernelFamily("kernel ridge", KernelRidge),
    "svr": KernelFamily("SVR", EpsilonSVR),
    "klasso": KernelFamily("kernelised LASSO", KernelLasso),
}


@dataclass
class KernelSettings:
    """Settings of the figures of kernel models, a coefficient for each datum, under sign changes.

    Attributes:
        lengthscale: lengthscale of the kernel, in the unit of the input.
        m: number of compared values.
        q_values: the regions' q, each 0 < q < m. The confidence is 1 - q/m.
        rays: directions from the estimate, for each metric.
        metrics: metrics in which the directions are isotropic: the coefficients, the RKHS norm, or the values at the
            data.
        norm_bound: B of the norm ball |f|_H <= B the sampled members are also limited to.
        grid_points: inputs at which bands are drawn.
        repetitions: repetitions of the noise, for the coverage.
    """

    lengthscale: Positive
    m: Annotated[int, at_least(2)]
    q_values: Annotated[list[int], filled, unique]
    rays: Annotated[int, at_least(2)]
    metrics: Annotated[list[Annotated[str, one_of(METRICS)]], filled, unique]
    norm_bound: Positive
    grid_points: Annotated[int, at_least(2)]
    repetitions: Annotated[int, at_least(10), drawn_together]

    def check(self) -> None:
        """Refuse a q that is not below m."""
        check_levels(self.m, self.q_values)

    @property
    def kernel_metrics(self) -> list[KernelMetric]:
        """The metrics, known to be such."""
        return [known for metric in self.metrics for known in METRICS if known == metric]


@dataclass(frozen=True)
class KernelModel:
    """A kernel model and its objective's numbers.

    Attributes:
        family: key of `FAMILIES`.
        C: weight of the residuals.
        epsilon: half width of the tube.
        penalty: lambda.
    """

    family: str
    C: float | None = field(default=None, metadata=OPTIONAL)
    epsilon: float | None = field(default=None, metadata=OPTIONAL)
    penalty: float | None = field(default=None, metadata=OPTIONAL)

    @property
    def title(self) -> str:
        """The family's name in tables and figures."""
        return FAMILIES[self.family].title

    def objective(self, gram: FloatArray) -> Objective:
        """Return the objective on a Gram matrix [n, n]."""
        numbers = {"C": self.C, "epsilon": self.epsilon, "penalty": self.penalty}
        return FAMILIES[self.family].objective(
            gram, **{name: value for name, value in numbers.items() if value is not None}
        )


@dataclass(frozen=True)
class KernelProblem:
    """A kernel model on data with one input, and its perturbations.

    Attributes:
        model: the model.
        kernel: name of the kernel, of unit variance.
        lengthscale: lengthscale of the kernel, in the unit of the input.
        m: number of compared values.
        seed: of perturbations, rays and noise.
    """

    model: KernelModel
    kernel: str
    lengthscale: float
    m: int
    seed: int

    def covariance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the kernel of unit variance between inputs A [I, 1] and B [K, 1]."""
        return kappa(self.kernel, squared_distances(A / self.lengthscale, B / self.lengthscale))

    def region(self, X: FloatArray, y: FloatArray, q: int) -> ConfidenceRegion:
        """Return the region of data X [n, 1], y [n] at q. The same perturbations for all q."""
        return confidence_region(
            X,
            y,
            ModelClass(self.model.objective, self.covariance),
            q=q,
            m=self.m,
            rng=stream(self.seed, "perturbations"),
            group=SignChanges(),
        )


@dataclass(frozen=True)
class CoverageTask:
    """Parameters of a coverage task: how often a kernel model's regions hold the ideal coefficients, at every q."""

    problem: KernelProblem = field(metadata=INLINE)
    q_values: Sequence[int]
    repetitions: int
    kind: str = "kernel_coverage"


def kernel_problem(request: Request[KernelSettings], model: KernelModel) -> KernelProblem:
    """Return what every task of a kernel model depends on."""
    settings = request.settings
    return take(
        KernelProblem,
        settings,
        model=model,
        kernel=request.model.kernel,
        seed=derived_seed(request.seed, "kernel models"),
    )


def coverage_tasks(request: Request[KernelSettings], models: Sequence[KernelModel]) -> Iterator[Task[CoverageTask]]:
    """Yield one task per model: how often its regions hold the ideal coefficients."""
    settings = request.settings
    for model in models:
        yield request.task(
            CoverageTask(kernel_problem(request, model), settings.q_values, settings.repetitions),
            label=f"{model.title}  coverage over {settings.repetitions} repetitions",
            axes={"part": "coverage", "model": model.family},
            cost=1e-4 * settings.repetitions,
        )


def regression_data(dataset: PreparedDataset) -> tuple[FloatArray, FloatArray]:
    """Return inputs [n, 1] and outputs [n].

    Raises:
        ValueError: on more than one input.
    """
    data = load(dataset)
    if data.X.shape[1] != 1:
        raise ValueError(f"one input is needed, got {data.X.shape[1]}")
    return data.X, data.y[:, 0]


def ideal_coefficients(gram: FloatArray, values: FloatArray, free: int = 0) -> FloatArray:
    """Return (0, K^-1 f) [free + n]: the coefficients with the true values f [n] at the data, and no bias."""
    return np.concatenate([np.zeros(free), np.linalg.solve(gram, values)])


def run_coverage(task: Task[CoverageTask], shared: SharedWork) -> Outcome:
    """Count, over fresh noise and perturbations, how often the ideal coefficients are members at each q."""
    problem, repetitions = task.params.problem, task.params.repetitions
    X, y = regression_data(task.require_dataset())
    region = problem.region(X, y, 1)
    free = region.objective.design.shape[1] - len(y)
    ideal = ideal_coefficients(problem.covariance(X, X), FUNCTIONS[TRUTH](X[:, 0]), free)
    rng = stream(problem.seed, "coverage", problem.model.family)
    noise = draw_noise(rng, NOISE, (repetitions, len(y)), scale=NOISE_SCALE)
    ranks = simulated_ranks(region.objective, ideal, noise, SignChanges(), problem.m, rng)
    q_values = task.params.q_values
    held = {f"held_{q}": int(np.count_nonzero(ranks <= problem.m - q)) for q in q_values}
    last = q_values[-1]
    text = f"{held[f'held_{last}'] / repetitions:.4f} at p = {1 - last / problem.m:g}"
    return Outcome({"repetitions": repetitions, **held}, headline=text)


def coverage_not_rejected(record: Record, q_values: Sequence[int], m: int) -> bool:
    """Return whether no q of a model is rejected at 99.9 %, divided among the q (Bonferroni)."""
    count = int(record.number("repetitions"))
    values = [binomial_p(int(record.number(f"held_{q}")), count, 1.0 - q / m) for q in q_values]
    return bonferroni_p(values) >= REJECTED


def coverage_table(records: Sequence[Record], q_values: Sequence[int], m: int) -> pd.DataFrame:
    """Return measured coverage of the ideal coefficients by model and q, with the test's p value."""
    import pandas as pd

    rows = []
    for record in records:
        count = int(record.number("repetitions"))
        for q in q_values:
            held = int(record.number(f"held_{q}"))
            rows.append(
                {
                    "model": FAMILIES[str(record.axes["model"])].title,
                    "p": confidence_text(q, m),
                    "coverage": held / count,
                    "repetitions": count,
                    "binomial p value": binomial_p(held, count, 1.0 - q / m),
                }
            )
    return pd.DataFrame(rows)


def report_coverage(report: Report[KernelSettings], about: str) -> None:
    """Write the table of the models' coverage. `about` says which data and regions it shows."""
    settings = report.settings
    table = coverage_table(report.records(part="coverage"), settings.q_values, settings.m)
    report.table(table, "coverage", f"Coverage of the ideal coefficients: {about}")
