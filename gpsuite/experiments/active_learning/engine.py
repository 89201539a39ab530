"""active_learning/engine: HC and O2 of an engine, its exhaust temperature kept low (Sec. 5.3 of Li et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpsuite.experiments.active_learning.curves import Curves
from gpsuite.experiments.active_learning.engine_claims import engine_statistics
from gpsuite.experiments.active_learning.engine_data import DATA, SATURATION, describe, run_saturation
from gpsuite.experiments.active_learning.engine_settings import EngineSettings
from gpsuite.experiments.active_learning.engine_tables import write_data_tables
from gpsuite.experiments.active_learning.figures import draw_curves, draw_safety
from gpsuite.experiments.active_learning.methods import BUILDER, titles
from gpsuite.experiments.active_learning.repetition import (
    read_campaign,
    read_inference,
    read_pipeline,
    run_repetition,
)
from gpsuite.experiments.active_learning.settings import pipeline_kernel, repetition_tasks
from gpsuite.experiments.active_learning.tables import write_curve_tables
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    only_arrays,
)
from gpsuite.methods.active_learning.inference import Learner
from gpsuite.methods.active_learning.metrics import rmse
from gpsuite.models.mixtures import mixture_moments
from gpsuite.models.multi_output import Observations
from gpsuite.reporting.comparison import Statistic
from gpsuite.seeds import derived_seed

WHAT = "Engine, HC and O2"
VERSION = 1  # of the tasks that are no repetitions


def plan(request: Request) -> list[Task]:
    """Return one task per repetition and pipeline, one that describes the data, and those of the sparse GP."""
    settings: EngineSettings = request.settings
    tasks = repetition_tasks(request, settings.source(request))
    return [*tasks, *_other_tasks(request, settings)]


def _other_tasks(request: Request, settings: EngineSettings) -> list[Task]:
    described = Task(
        experiment=request.experiment,
        label="the data",
        axes={"method": "", "repetition": 0, "part": DATA, "rows": 0},
        params={"kind": DATA},
        dataset=request.dataset,
        version=VERSION,
        cost=10.0,
    )
    names = ("fit_rows", "inducing", "starts", "test_rows")
    own = {name: getattr(settings, name) for name in names} | {"kernel": pipeline_kernel(request.model)}
    sparse = [
        Task(
            experiment=request.experiment,
            label=f"sparse multi-output GP  {rows} rows  repetition {repetition}",
            axes={"method": "", "repetition": repetition, "part": SATURATION, "rows": rows},
            params={
                "kind": SATURATION,
                "rows": rows,
                "seed": derived_seed(request.seed, SATURATION, repetition),
                **own,
            },
            dataset=request.dataset,
            version=VERSION,
            cost=20.0,
        )
        for repetition in range(settings.saturation_repetitions)
        for rows in settings.saturation_rows
    ]
    return [described, *sparse]


def run(task: Task, shared: SharedWork) -> Outcome:
    """Run a repetition, describe the data, or fit the sparse GP."""
    if task.params["kind"] == DATA:
        return describe(task)
    if task.params["kind"] == SATURATION:
        return run_saturation(task)
    outcome = run_repetition(task, shared)
    return replace(outcome, metrics={**outcome.metrics, **standardised_errors(task, outcome)})


def standardised_errors(task: Task, outcome: Outcome) -> dict[str, float]:
    """Return the last models' RMSE on the safe test rows over the standard deviation there: of each output and of z.

    The safety model is inferred anew from all its measurements, to predict at the test rows. Nothing without one.
    """
    campaign, pipeline = read_campaign(task), read_pipeline(task.params)
    if not pipeline.safe or "row" not in outcome.arrays:
        return {}
    test, safe = campaign.test, campaign.test_safe
    deviation = test.Y[safe].std(axis=0)
    found = {
        f"standardised_output_{p + 1}": float(outcome.arrays[f"rmse_output_{p + 1}"][-1])
        / float(deviation[p])
        for p in range(campaign.n_outputs)
    }
    rows = np.unique(outcome.arrays["row"][:-1].astype(np.int64))  # the last query is answered, not learnt
    X, z = np.vstack([campaign.start.X, campaign.pool.X[rows]]), campaign.pool.z[rows]
    known = Observations(X, np.zeros(len(X), dtype=np.int64), np.concatenate([campaign.start.z, z]))
    inference = read_inference(task.params["inference"])
    learner = Learner(pipeline.safety_model(), known, test.X[safe], inference, capacity=len(X))
    learner.start(np.random.default_rng(int(task.params["sampler_seed"])))
    learner.predict()
    predictions = learner.predictions
    mean, _ = mixture_moments(predictions.mean, predictions.variance, learner.weights)
    found["standardised_z"] = rmse(mean, test.z[safe][:, None]) / float(test.z[safe].std())
    return found


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write curves, safety, and what is known of the data; return what the paper states."""
    settings: EngineSettings = request.settings
    names = titles(request.methods)
    others = [record for record in records if record.axes["method"] == ""]
    curves = Curves.from_records(records, tuple(names))
    write_data_tables(others, folder, note)
    if curves.methods:
        points = settings.points(max(curves.final(method) for method in curves.methods))
        write_curve_tables(
            curves, names, folder / "tables", "engine", WHAT, points, settings.thresholds, note
        )
        figures, units = folder / "figures", "standardised units"
        heading = "engine, HC and O2: safe test rows"
        draw_curves(curves, names, figures, "engine_curves", heading, units, settings.thresholds, note)
        draw_safety(curves, names, figures, "engine_safety", "engine: safety", note)
    return engine_statistics(curves, others, settings)


EXPERIMENTS.register("active_learning/engine")(
    Experiment(
        EngineSettings,
        plan,
        run,
        summarise,
        builders=(BUILDER,),
        parts=("repetitions", "saturation_repetitions"),
        published=only_arrays("[!z]*"),  # not the measured temperatures
    )
)
