"""active_learning/convergence: Lemma 1 and Theorems 2, 3 and 9 of Li et al. 2022 made visible."""

from __future__ import annotations

from gpsuite.experiments.active_learning.convergence import plan, run, settings, summary
from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array

EXPERIMENTS.register("active_learning/convergence")(
    Experiment(
        settings.ConvergenceSettings,
        plan.plan,
        run.run,
        summary.summarise,
        parts=("runs", "kernels", "dimensions", "regions", "outputs"),
        model_keys=(),
        published=every_array,
    )
)
