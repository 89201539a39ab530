"""robustness/safety_synthetic2d, safety_spam, safety_mnist38: local safety (Blaas et al. 2020, Fig. 2-3)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.robustness.safety_curves.plan import plan
from gpsuite.experiments.robustness.safety_curves.run import run_local_safety
from gpsuite.experiments.robustness.safety_curves.settings import LocalSafetySettings
from gpsuite.experiments.robustness.safety_curves.summary import summarise
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

EXPERIMENT = Experiment(
    LocalSafetySettings,
    plan,
    run_local_safety,
    summarise,
    builders=("gpc",),
    parts=("points",),
    published=only_arrays("[!xw]*"),  # neither x, a row of the dataset, nor the witnesses near it
    agreement=AGREEMENT,
)


for _name in ("safety_synthetic2d", "safety_spam", "safety_mnist38"):
    EXPERIMENTS.register(f"robustness/{_name}")(EXPERIMENT)
