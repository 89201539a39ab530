"""robustness/bounds_1d: bounding functions over an interval and what one split does (Blaas et al. 2020, Fig. 1)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.robustness.bounds_1d import plan, run, settings, summary
from gpsuite.experiments.robustness.methods import CLASSIFIER

EXPERIMENTS.register("robustness/bounds_1d")(
    Experiment(
        settings.Bounds1DSettings,
        plan.plan,
        run.run,
        summary.summarise,
        method_traits=(CLASSIFIER,),
        parts=("bounds", "levels"),
        model_keys=("kernel",),
        published=every_array,
    )
)
