"""active_learning/plan: the next safe measurements for the user's own table; a longer table continues."""

from __future__ import annotations

from gpsuite.experiments.active_learning.plan import plan, run, settings, summary
from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays

EXPERIMENTS.register("active_learning/plan")(
    Experiment(
        settings.PlanSettings,
        plan.plan,
        run.run,
        summary.summarise,
        dataset_tasks=("measurements",),
        published=only_arrays(
            "row", "output", "p*", "mean", "sd", "entropy", "safe"
        ),  # not the state: it holds data
        model_keys=(),
    )
)
