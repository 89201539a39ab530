"""active_learning/toy: sine and sigmoid; learning curves, safety, and what inference and priors do (Li et al. 2022)."""

from __future__ import annotations

from gpsuite.experiments.active_learning.methods import PIPELINE
from gpsuite.experiments.active_learning.toy import plan, run, settings, summary
from gpsuite.experiments.base import EXPERIMENTS, Experiment

EXPERIMENTS.register("active_learning/toy")(
    Experiment(
        settings.ToySettings,
        plan.plan,
        run.run,
        summary.summarise,
        method_traits=(PIPELINE,),
        parts=("repetitions", "hmc_repetitions"),
    )
)
