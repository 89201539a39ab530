"""active_learning/observation_ablation: one output per query against all of them (appendix J of Li et al. 2022)."""

from __future__ import annotations

from gpsuite.experiments.active_learning.methods import PIPELINE
from gpsuite.experiments.active_learning.observation_ablation import plan, settings, summary
from gpsuite.experiments.active_learning.shared.run import run_repetition
from gpsuite.experiments.active_learning.shared.settings import KERNELS
from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array, every_task

EXPERIMENTS.register("active_learning/observation_ablation")(
    Experiment(
        settings.AblationSettings,
        plan.plan,
        run_repetition,
        summary.summarise,
        chaotic=every_task,
        method_traits=(PIPELINE,),
        model_keys=("kernel",),
        kernels=KERNELS,
        parts=("repetitions", "sources", "unequal"),
        published=every_array,
    )
)
