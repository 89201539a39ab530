"""wasserstein/toy_bands: predictive bands in one dimension, the distance's estimates, wide networks' covariance."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.wasserstein.methods import NUMBERS
from gpsuite.experiments.wasserstein.toy_bands import plan, run, settings, summary

EXPERIMENTS.register("wasserstein/toy_bands")(
    Experiment(
        settings.ToySettings,
        plan.plan,
        {plan.BandTask: run.run_band, plan.DistanceTask: run.run_distance, plan.WidthTask: run.run_width},
        summary.summarise,
        method_traits=(NUMBERS,),
        parts=("methods",),
        agreement=1e-3,
        model_keys=(),
        published=every_array,
    )
)
