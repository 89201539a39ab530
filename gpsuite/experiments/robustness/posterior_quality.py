"""robustness/posterior_quality: Laplace's and EP's distance to HMC, and whether it goes with robustness (Sec. 6.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import (
    EXPERIMENTS,
    METHODS,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    require,
)
from gpsuite.experiments.robustness.classifiers import read_problem
from gpsuite.experiments.robustness.deltas import DeltaSettings, delta_tasks, run_delta
from gpsuite.experiments.robustness.frames import records_frame, timing_table
from gpsuite.experiments.robustness.hmc_distance import DISTANCES, run_hmc_distance
from gpsuite.experiments.robustness.methods import GPCOptions
from gpsuite.experiments.robustness.quality_claims import Quality, quality_claims
from gpsuite.experiments.robustness.quality_figure import draw
from gpsuite.experiments.robustness.settings import AGREEMENT, check_distinct, model_group, model_params
from gpsuite.experiments.robustness.studies import Study, study_of
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import mean_and_error, write_table

if TYPE_CHECKING:
    import pandas as pd

DELTA, HMC = "delta", "hmc"
LABELS = {
    "wasserstein": "2-Wasserstein (latent units)",
    "wasserstein_draws": "2-Wasserstein to the draws",
    "kl": "KL(HMC | approximation) (nats)",
    "probability_error": "|class probability − HMC's|",
}
ADVICE = "a method of this run whose trained hyperparameters HMC is run for"


@dataclass
class PosteriorQualitySettings(DeltaSettings):
    """Settings of the study over datasets; scaling, features, radii and tolerance are each dataset's (`studies`).

    Attributes:
        gammas: how many of each dataset's radii are run for the comparison of delta between datasets.
        hmc_evaluations: evaluations in training of the classifiers that HMC is run for, one of `evaluations`.
        hmc_trained_by: methods at whose hyperparameters HMC is run; the first decides the claims.
        chains: HMC chains.
        burn_in: draws thrown away per chain.
        samples: draws kept per chain.
    """

    gammas: int = 2
    hmc_evaluations: int = 10
    hmc_trained_by: list[str] = field(default_factory=lambda: ["laplace", "ep"])
    chains: int = 4
    burn_in: int = 1000
    samples: int = 5000

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        known = self.hmc_evaluations in self.evaluations
        require(
            known, "hmc_evaluations", self.hmc_evaluations, f"must be one of evaluations={self.evaluations}"
        )
        require(1 <= self.gammas <= 3, "gammas", self.gammas, "must be 1, 2 or 3")
        check_distinct("hmc_trained_by", self.hmc_trained_by)
        for name, least in (("chains", 2), ("burn_in", 10), ("samples", 10)):
            require(getattr(self, name) >= least, name, getattr(self, name), f"must be {least} or more")


def plan(request: Request) -> list[Task]:
    """Return per dataset the deltas, the same tasks as in distribution_*, and one HMC task per draw and training."""
    settings: PosteriorQualitySettings = request.settings
    for name in settings.hmc_trained_by:
        require(name in request.methods, "hmc_trained_by", name, f"{ADVICE}: {', '.join(request.methods)}")
    tasks: list[Task] = []
    for name, dataset in request.datasets.items():
        study = study_of(name)
        own = replace(settings, scaling=study.scaling, features=study.features, tolerance=study.tolerance)
        options = next(iter(request.methods.values()))
        axes: dict[str, str | int | float] = {"part": DELTA, "dataset": study.title}
        tasks += delta_tasks(request, own, dataset, study.radii[: own.gammas], axes)  # there may be too many
        tasks += _hmc_tasks(request, own, dataset, study)
        for number in range(own.draws):
            read_problem(dataset, model_params(request, own, options, number, 1))
    return tasks


def _hmc_tasks(
    request: Request, settings: PosteriorQualitySettings, dataset: PreparedDataset, study: Study
) -> Iterator[Task]:
    inferences = {
        name: options.inference
        for name, options in request.methods.items()
        if isinstance(options, GPCOptions)
    }
    rows = min(settings.train_rows, dataset.rows) / 1000
    transitions = settings.burn_in + settings.samples
    for number in range(settings.draws):
        for name in settings.hmc_trained_by:
            options = request.methods[name]
            model = model_params(request, settings, options, number, settings.hmc_evaluations)
            yield Task(
                experiment=request.experiment,
                label=f"{dataset.name}  HMC at {options.title}'s hyperparameters  draw {number}",
                axes={
                    "part": HMC,
                    "dataset": study.title,
                    "method": name,
                    "evaluations": settings.hmc_evaluations,
                    "draw": number,
                },
                params={
                    "kind": "hmc_distance",
                    "model": model,
                    "inferences": inferences,
                    "chains": settings.chains,
                    "burn_in": settings.burn_in,
                    "samples": settings.samples,
                },
                dataset=dataset,
                version=METHODS.get(options.builder).version,
                group=model_group(dataset, model),
                cost=8.0 + 0.002 * settings.chains * transitions * rows**2,
                budget_seconds=request.budget_seconds,
            )


def run(task: Task, shared: SharedWork) -> Outcome:
    """Run a task of either part."""
    return run_delta(task, shared) if task.params["kind"] == DELTA else run_hmc_distance(task, shared)


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write distances and chains, and the ratios; draw both; return means and the paper's claims over datasets."""
    settings: PosteriorQualitySettings = request.settings
    titles = {method: options.title for method, options in request.methods.items()}
    deltas = delta_frames(request, records)
    sampled = [record for record in records if record.axes["part"] == HMC]
    found = converged(sampled, settings.hmc_trained_by[0])
    tables, noted = folder / "tables", f" ({note})" if note else ""
    caption = (
        f"Distance to HMC over the test points, mean ± standard error, at the hyperparameters that the named method "
        f"learned in {settings.hmc_evaluations} evaluations; draws whose chains did not converge are left out{noted}"
    )
    if sampled:
        write_table(distance_table(sampled, titles), tables, "posterior_quality", caption)
        write_table(chain_table(sampled, titles), tables, "posterior_quality_chains", f"HMC chains{noted}")
    timing = timing_table(records, ["part", "dataset", "method", "evaluations"], titles)
    write_table(
        timing, tables, "posterior_quality_timing", "CPU seconds per task; the first of a model trains it"
    )
    statistics = quality_claims(
        found, deltas, settings.hmc_evaluations, settings.points / settings.train_rows
    )
    draw(statistics, found, deltas, titles, settings, folder / "figures", note)
    return statistics


def delta_frames(request: Request, records: Sequence[Record]) -> dict[str, pd.DataFrame]:
    """Return the records of delta per dataset's title; the column rank is a radius's place in its study."""
    frames = {}
    for name in request.datasets:
        study = study_of(name)
        own = [
            record
            for record in records
            if record.axes["part"] == DELTA
            and record.axes["dataset"] == study.title
            and record.axes["training"] == request.settings.trainings[0]
        ]
        if own:
            frame = records_frame(own)
            frames[study.title] = frame.assign(rank=[study.radii.index(radius) for radius in frame["radius"]])
    return frames


def converged(records: Sequence[Record], trained_by: str) -> list[Quality]:
    """Return the distances of the records whose chains converged, at one method's hyperparameters."""
    return [
        Quality(str(record.axes["dataset"]), int(record.axes["draw"]), dict(record.arrays))
        for record in records
        if record.axes["method"] == trained_by and record.metrics.get("hmc_converged")
    ]


def distance_table(records: Sequence[Record], titles: dict[str, str]) -> pd.DataFrame:
    """Return one row per dataset, training method and approximation: mean distances over points and converged draws."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for dataset in dict.fromkeys(str(record.axes["dataset"]) for record in records):
        for trained_by in dict.fromkeys(str(record.axes["method"]) for record in records):
            own = [r for r in records if (r.axes["dataset"], r.axes["method"]) == (dataset, trained_by)]
            kept = [record for record in own if record.metrics.get("hmc_converged")]
            for method, title in titles.items():
                row: dict[str, Any] = {
                    "dataset": dataset,
                    "hyperparameters by": titles[trained_by],
                    "method": title,
                }
                for distance in DISTANCES:
                    row[LABELS[distance]] = _mean_cell([r.arrays[f"{distance}_{method}"] for r in kept])
                rows.append({**row, "draws": f"{len(kept)} of {len(own)}"})
    return pd.DataFrame(rows)


def _mean_cell(parts: Sequence[np.ndarray[Any, Any]]) -> str:
    values = np.concatenate(parts) if parts else np.empty(0)
    if not len(values):
        return mean_and_error(float("nan"), None)
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None
    return mean_and_error(float(values.mean()), error)


def chain_table(records: Sequence[Record], titles: dict[str, str]) -> pd.DataFrame:
    """Return how the chains of every task went, and the hyperparameters they were run at."""
    import pandas as pd

    numbers = ("variance", "shortest_lengthscale", "r_hat", "ess", "acceptance")
    rows = [
        {
            "dataset": record.axes["dataset"],
            "hyperparameters by": titles[str(record.axes["method"])],
            "draw": record.axes["draw"],
            **{name: record.number(name) for name in numbers},
            "converged": "yes" if record.metrics.get("hmc_converged") else "no",
        }
        for record in records
    ]
    return pd.DataFrame(rows)


EXPERIMENTS.register("robustness/posterior_quality")(
    Experiment(
        PosteriorQualitySettings,
        plan,
        run,
        summarise,
        builders=("gpc",),
        dataset_tasks=("classification",),
        several_datasets=True,
        parts=("points", "draws", "gammas", "hmc_trained_by"),
        agreement=AGREEMENT,
    )
)
