"""active_learning/engine: HC and O2 of an engine, its exhaust temperature kept low (Sec. 5.3 of Li et al. 2022)."""

from __future__ import annotations

from gpsuite.experiments.active_learning.engine import plan, run, settings, summary
from gpsuite.experiments.active_learning.methods import PIPELINE
from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays

EXPERIMENTS.register("active_learning/engine")(
    Experiment(
        settings.EngineSettings,
        plan.plan,
        run.run,
        summary.summarise,
        method_traits=(PIPELINE,),
        parts=("repetitions", "saturation_repetitions"),
        published=only_arrays("[!z]*"),  # not the measured temperatures
    )
)
