"""active_learning/toy: sine and sigmoid; learning curves, safety, and what inference and priors do (Li et al. 2022)."""

from __future__ import annotations

from gpsuite.experiments.active_learning.methods import PIPELINE
from gpsuite.experiments.active_learning.shared.run import run_repetition
from gpsuite.experiments.active_learning.shared.settings import KERNELS
from gpsuite.experiments.active_learning.shared.tasks import RepetitionTask
from gpsuite.experiments.active_learning.toy import checks, plan, settings, summary
from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array, every_task

EXPERIMENTS.register("active_learning/toy")(
    Experiment(
        settings.ToySettings,
        plan.plan,
        {
            RepetitionTask: run_repetition,
            plan.IdentityTask: checks.run_identity,
            plan.CostTask: checks.run_cost,
        },
        summary.summarise,
        chaotic=every_task,
        method_traits=(PIPELINE,),
        model_keys=("kernel",),
        kernels=KERNELS,
        parts=("repetitions", "hmc_repetitions"),
        published=every_array,
    )
)
