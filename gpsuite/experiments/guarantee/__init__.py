"""guarantee: the user's own table, and every guarantee that applies to it, in plain words."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.guarantee import class_risk, plan, run, summary, tasks
from gpsuite.experiments.perturbation.region import run as run_region
from gpsuite.experiments.perturbation.region_problem import RegionTask
from gpsuite.experiments.robustness.tasks import CLASSIFIER, GAUSSIAN_LATENT

EXPERIMENTS.register("guarantee")(
    Experiment(
        tasks.GuaranteeSettings,
        plan.plan,
        {
            tasks.BoundedTask: run.run_bounded,
            tasks.JudgedTask: run.run_judged,
            tasks.RowsTask: run.run_rows,
            RegionTask: run_region,
            tasks.JudgedClassesTask: run.run_judged_classes,
            tasks.ClassRowsTask: run.run_class_rows,
            tasks.ConformalTask: run.run_conformal,
            tasks.ClassSetsTask: run.run_class_sets,
            tasks.ClassRiskTask: class_risk.run_class_risk,
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
