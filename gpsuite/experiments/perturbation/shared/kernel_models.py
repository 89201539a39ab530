"""The kernel models on one-dimensional data with Laplace noise: regions, and coverage of the ideal coefficients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc

from gpsuite.data.generators import FUNCTIONS, draw_noise
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Outcome, Record, Request, Task, require
from gpsuite.experiments.perturbation.shared.linear import (
    check_drawn_together,
    check_levels,
    check_positive,
    confidence_text,
)
from gpsuite.methods.perturbation.objectives.quadratic import (
    EpsilonSVR,
    KernelLasso,
    KernelLSSVM,
    KernelRidge,
    Objective,
)
from gpsuite.methods.perturbation.ranks.groups import SignChanges
from gpsuite.methods.perturbation.ranks.ranks import simulated_ranks
from gpsuite.methods.perturbation.region import ModelClass, Region, confidence_region
from gpsuite.models.radial import kappa, squared_distances
from gpsuite.seeds import derived_seed, stream

if TYPE_CHECKING:
    import pandas as pd


Array = npt.NDArray[np.float64]


FAMILIES: dict[str, Callable[..., Objective]] = {
    "lssvm": KernelLSSVM,
    "krr": KernelRidge,
    "svr": EpsilonSVR,
    "klasso": KernelLasso,
}


TITLES = {"lssvm": "LS-SVM", "krr": "kernel ridge", "svr": "SVR", "klasso": "kernelised LASSO"}


METRICS = ("coefficients", "rkhs", "values")


TRUTH, NOISE, NOISE_SCALE = "sin_2x", "laplace", 0.3  # of the dataset kernel_regression


REJECTED = 0.001  # two-sided binomial test, 99.9 %


@dataclass
class KernelSettings:
    """Settings of the figures of kernel models, a coefficient for each datum, under sign changes.

    Attributes:
        lengthscale: of the kernel, in the unit of the input.
        m: number of compared values.
        q_values: the regions' q, each 0 < q < m; the confidence is 1 - q/m.
        rays: directions from the estimate, for each metric.
        metrics: in which the directions are isotropic: the coefficients, the RKHS norm, or the values at the data.
        norm_bound: B of the norm ball |f|_H <= B the sampled members are also limited to.
        grid_points: inputs at which bands are drawn.
        repetitions: of the noise, for the coverage.
    """

    lengthscale: float = 0.4
    m: int = 100
    q_values: list[int] = field(default_factory=lambda: [50, 10])
    rays: int = 2000
    metrics: list[str] = field(default_factory=lambda: list(METRICS))
    norm_bound: float = 5.0
    grid_points: int = 201
    repetitions: int = 20_000

    def check(self) -> None:
        """Refuse impossible values."""
        check_levels(self.m, self.q_values)
        check_positive("lengthscale", self.lengthscale)
        check_positive("norm_bound", self.norm_bound)
        for name, least in (("rays", 2), ("grid_points", 2), ("repetitions", 10)):
            require(getattr(self, name) >= least, name, getattr(self, name), f"must be {least} or more")
        check_drawn_together(self.repetitions)
        require(bool(self.metrics), "metrics", self.metrics, "needs at least one value")
        require(len(set(self.metrics)) == len(self.metrics), "metrics", self.metrics, "has a value twice")
        for metric in self.metrics:
            require(metric in METRICS, "metrics", metric, f"valid: {', '.join(METRICS)}")


def shared_params(request: Request, kind: str, model: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every task of a kernel model depends on; model: the family and its objective's numbers."""
    settings: KernelSettings = request.settings
    return {
        "kind": kind,
        "model": dict(model),
        "kernel": request.model.kernel,
        "lengthscale": settings.lengthscale,
        "m": settings.m,
        "seed": derived_seed(request.seed, "kernel models"),
    }


def coverage_tasks(request: Request, models: Sequence[Mapping[str, Any]]) -> Iterator[Task]:
    """Yield one task per model: how often its regions hold the ideal coefficients."""
    settings: KernelSettings = request.settings
    for model in models:
        family = str(model["family"])
        yield Task(
            experiment=request.experiment,
            label=f"{TITLES[family]}  coverage over {settings.repetitions} repetitions",
            axes={"part": "coverage", "model": family},
            params={
                **shared_params(request, "kernel_coverage", model),
                "q_values": settings.q_values,
                "repetitions": settings.repetitions,
            },
            dataset=request.dataset,
            cost=1e-4 * settings.repetitions,
        )


def regression_data(dataset: PreparedDataset | None) -> tuple[Array, Array]:
    """Return inputs [n, 1] and outputs [n].

    Raises:
        ValueError: without a dataset, or on more than one input.
    """
    if dataset is None:
        raise ValueError("a dataset is needed")
    data = load(dataset)
    if data.X.shape[1] != 1:
        raise ValueError(f"one input is needed, got {data.X.shape[1]}")
    return data.X, data.y[:, 0]


def covariance(params: Mapping[str, Any], A: Array, B: Array) -> Array:
    """Return the kernel of unit variance between inputs A [I, 1] and B [K, 1]."""
    length = float(params["lengthscale"])
    return kappa(str(params["kernel"]), squared_distances(A / length, B / length))


def kernel_region(task: Task, q: int) -> Region:
    """Return the task's region at q; the same perturbations for all q."""
    params = task.params
    numbers = {name: value for name, value in params["model"].items() if name != "family"}
    X, y = regression_data(task.dataset)
    return confidence_region(
        X,
        y,
        ModelClass(partial(FAMILIES[params["model"]["family"]], **numbers), partial(covariance, params)),
        q=q,
        m=int(params["m"]),
        rng=stream(int(params["seed"]), "perturbations"),
        group=SignChanges(),
    )


def ideal_coefficients(gram: Array, values: Array, free: int = 0) -> Array:
    """Return (0, K^-1 f) [free + n]: the coefficients with the true values f [n] at the data, and no bias."""
    return np.concatenate([np.zeros(free), np.linalg.solve(gram, values)])


def run_coverage(task: Task) -> Outcome:
    """Count, over fresh noise and perturbations, how often the ideal coefficients are members at each q."""
    params = task.params
    region = kernel_region(task, 1)
    X, y = regression_data(task.dataset)
    gram, m = covariance(params, X, X), int(params["m"])
    free = region.objective.design.shape[1] - len(y)
    ideal = ideal_coefficients(gram, FUNCTIONS[TRUTH](X[:, 0]), free)
    repetitions = int(params["repetitions"])
    rng = stream(int(params["seed"]), "coverage", params["model"]["family"])
    noise = draw_noise(rng, NOISE, (repetitions, len(y)), scale=NOISE_SCALE)
    ranks = simulated_ranks(region.objective, ideal, noise, SignChanges(), m, rng)
    held = {f"held_{q}": int(np.count_nonzero(ranks <= m - q)) for q in params["q_values"]}
    q = params["q_values"][-1]
    text = f"{held[f'held_{q}'] / repetitions:.4f} at p = {1 - q / m:g}"
    return Outcome({"repetitions": repetitions, **held}, headline=text)


def binomial_p_value(held: int, count: int, p: float) -> float:
    """Return the two-sided p value of `held` of `count` at probability p: twice the smaller tail, at most 1."""
    above = 1.0 if held == 0 else float(bdtrc(held - 1, count, p))
    return min(1.0, 2.0 * min(float(bdtr(held, count, p)), above))


def coverage_not_rejected(record: Record, q_values: Sequence[int], m: int) -> bool:
    """Return whether no q of a model is rejected at 99.9 %, shared out over the q (Bonferroni)."""
    count = int(record.number("repetitions"))
    values = [binomial_p_value(int(record.number(f"held_{q}")), count, 1.0 - q / m) for q in q_values]
    return min(values) >= REJECTED / len(values)


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
                    "model": TITLES[str(record.axes["model"])],
                    "p": confidence_text(q, m),
                    "coverage": held / count,
                    "repetitions": count,
                    "binomial p value": binomial_p_value(held, count, 1.0 - q / m),
                }
            )
    return pd.DataFrame(rows)
