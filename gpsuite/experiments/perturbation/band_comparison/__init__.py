"""perturbation/band_comparison: width against coverage of bands for a function and intervals for new responses."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.perturbation.band_comparison import plan, run, settings, summary

EXPERIMENTS.register("perturbation/band_comparison")(
    Experiment(
        settings.BandSettings,
        plan.plan,
        run.run,
        summary.summarise,
        parts=("data_sets", "bands", "noises"),
        model_keys=(),
        published=every_array,
    )
)
