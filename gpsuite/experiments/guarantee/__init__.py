"""guarantee: the user's own table, and every guarantee that applies to it, in plain words."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.guarantee import plan, run, summary, tasks
from gpsuite.experiments.guarantee.tasks import (
    BoundedTask,
    ClassRowsTask,
    ClassSetsTask,
    ConformalTask,
    JudgedClassesTask,
    JudgedTask,
    RowsTask,
)
from gpsuite.experiments.perturbation.region import run as run_region
from gpsuite.experiments.perturbation.region_problem import RegionTask
from gpsuite.experiments.robustness.tasks import CLASSIFIER, GAUSSIAN_LATENT

EXPERIMENTS.register("guarantee")(
    Experiment(
        tasks.GuaranteeSettings,
        plan.plan,
        {
            BoundedTask: run.run_bounded,
            JudgedTask: run.run_judged,
            RowsTask: run.run_rows,
            RegionTask: run_region,
            JudgedClassesTask: run.run_judged_classes,
            ClassRowsTask: run.run_class_rows,
            ConformalTask: run.run_conformal,
            ClassSetsTask: run.run_class_sets,
        },
        summary.summarise,
        method_traits=(CLASSIFIER, GAUSSIAN_LATENT),
        methodless=("regression",),
        dataset_tasks=("regression", "classification"),
        new_rows=True,
        # never the model: it holds rows
        published=only_arrays("errors", "bounds", "gibbs_bounds", "shares", "certified*", "class_*"),
        model_keys=(),
    )
)
