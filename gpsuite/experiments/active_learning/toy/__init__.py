"""active_learning/toy: sine and sigmoid; learning curves, safety, and what inference and priors do (Li et al. 2022)."""

from __future__ import annotations

from gpsuite.experiments.active_learning.methods import BUILDER
from gpsuite.experiments.active_learning.toy.plan import plan
from gpsuite.experiments.active_learning.toy.run import run
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.experiments.active_learning.toy.summary import summarise
from gpsuite.experiments.base import EXPERIMENTS, Experiment

EXPERIMENTS.register("active_learning/toy")(
    Experiment(
        ToySettings, plan, run, summarise, builders=(BUILDER,), parts=("repetitions", "hmc_repetitions")
    )
)
