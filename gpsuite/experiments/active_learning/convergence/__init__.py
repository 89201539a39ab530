"""active_learning/convergence: Lemma 1 and Theorems 2, 3 and 9 of Li et al. 2022 made visible."""

from __future__ import annotations

from gpsuite.experiments.active_learning.convergence.plan import plan
from gpsuite.experiments.active_learning.convergence.run import run
from gpsuite.experiments.active_learning.convergence.settings import ConvergenceSettings
from gpsuite.experiments.active_learning.convergence.summary import summarise
from gpsuite.experiments.base import EXPERIMENTS, Experiment

EXPERIMENTS.register("active_learning/convergence")(
    Experiment(
        ConvergenceSettings,
        plan,
        run,
        summarise,
        parts=("runs", "kernels", "dimensions", "regions", "outputs"),
    )
)
