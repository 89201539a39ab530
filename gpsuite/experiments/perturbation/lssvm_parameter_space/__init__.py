"""perturbation/lssvm_parameter_space: regions and ellipsoids of the linear LS-SVM (Csáji and Kis, Fig. 2)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.perturbation.lssvm_parameter_space import plan, run, settings, summary

EXPERIMENTS.register("perturbation/lssvm_parameter_space")(
    Experiment(
        settings.ParameterSpaceSettings,
        plan.plan,
        {plan.RegionTask: run.run_region, plan.RidgeTask: run.run_ridge},
        summary.summarise,
        parts=("draws", "segments", "q_values"),
        model_keys=(),
        published=every_array,
    )
)
