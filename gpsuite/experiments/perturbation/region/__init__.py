"""perturbation/region: confidence regions and bands on any regression dataset, a user's CSV included."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.perturbation.region import plan, run, settings, summary

EXPERIMENTS.register("perturbation/region")(
    Experiment(
        settings.RegionSettings,
        plan.plan,
        run.run,
        summary.summarise,
        dataset_tasks=("regression",),
        model_keys=(),
        published=every_array,
    )
)
