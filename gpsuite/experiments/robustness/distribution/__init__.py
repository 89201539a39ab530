"""robustness/distribution_*: delta over test points, Laplace against EP, by evaluations (Blaas et al. 2020, Fig. 4)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.robustness.distribution import plan, settings, summary
from gpsuite.experiments.robustness.methods import CLASSIFIER
from gpsuite.experiments.robustness.shared.probability_change import run_delta
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

for _name in ("distribution_synthetic2d", "distribution_spam", "distribution_mnist38"):
    EXPERIMENTS.register(f"robustness/{_name}")(
        Experiment(
            settings.DistributionSettings,
            plan.plan,
            run_delta,
            summary.summarise,
            method_traits=(CLASSIFIER,),
            dataset_tasks=("classification",),
            parts=("points", "draws", "radii", "trainings"),
            agreement=AGREEMENT,
            published=every_array,
        )
    )
