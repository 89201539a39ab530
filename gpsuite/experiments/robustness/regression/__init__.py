"""robustness/regression: how far a regression's prediction moves when inputs are known within so much only."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.robustness.methods import REGRESSOR
from gpsuite.experiments.robustness.regression import plan, run, settings, summary

AGREEMENT = 1e-2  # the search of a sparse GP stops along flat directions

EXPERIMENTS.register("robustness/regression")(
    Experiment(
        settings.RegressionSettings,
        plan.plan,
        run.run,
        summary.summarise,
        method_traits=(REGRESSOR,),
        dataset_tasks=("regression",),
        parts=("count",),
        published=only_arrays("ranges", "moved", "certified"),
        agreement=AGREEMENT,
        model_keys=("kernel", "ard", "noise_floor"),
    )
)
