"""robustness/safety_synthetic2d, safety_spam, safety_mnist38: local safety (Blaas et al. 2020, Fig. 2-3)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.robustness.methods import CLASSIFIER
from gpsuite.experiments.robustness.safety_curves import plan, run, settings, summary
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

EXPERIMENT = Experiment(
    settings.LocalSafetySettings,
    plan.plan,
    {
        plan.CurveTask: run.run_curve,
        plan.AttackTask: run.run_attack,
        plan.MapTask: run.run_map,
        plan.AccuracyTask: run.run_accuracy,
    },
    summary.summarise,
    method_traits=(CLASSIFIER,),
    parts=("points",),
    published=only_arrays("[!xw]*"),  # neither x, a row of the dataset, nor the witnesses near it
    agreement=AGREEMENT,
)


for _name in ("safety_synthetic2d", "safety_spam", "safety_mnist38"):
    EXPERIMENTS.register(f"robustness/{_name}")(EXPERIMENT)
