"""active_learning/engine: HC and O2 of an engine, its exhaust temperature kept low (Sec. 5.3 of Li et al. 2022)."""

from __future__ import annotations

from gpsuite.experiments.active_learning.engine import checks, plan, run, settings, summary
from gpsuite.experiments.active_learning.methods import PIPELINE
from gpsuite.experiments.active_learning.shared.settings import KERNELS
from gpsuite.experiments.active_learning.shared.tasks import RepetitionTask
from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_task, only_arrays

EXPERIMENTS.register("active_learning/engine")(
    Experiment(
        settings.EngineSettings,
        plan.plan,
        {
            RepetitionTask: run.run_and_standardise,
            plan.DataTask: checks.describe,
            plan.SaturationTask: checks.run_saturation,
        },
        summary.summarise,
        chaotic=every_task,
        method_traits=(PIPELINE,),
        model_keys=("kernel",),
        kernels=KERNELS,
        variants=("gengine1", "gengine1_co2_hc"),
        parts=("repetitions", "saturation_repetitions"),
        published=only_arrays("[!z]*"),  # not the measured temperatures
    )
)
