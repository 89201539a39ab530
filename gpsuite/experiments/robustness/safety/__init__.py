"""robustness/safety: a certified class-probability range for points of any dataset, a user's CSV included."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.robustness.safety.plan import plan
from gpsuite.experiments.robustness.safety.run import run_safety
from gpsuite.experiments.robustness.safety.settings import SafetySettings
from gpsuite.experiments.robustness.safety.summary import summarise
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

EXPERIMENTS.register("robustness/safety")(
    Experiment(
        SafetySettings,
        plan,
        run_safety,
        summarise,
        builders=("gpc",),
        dataset_tasks=("classification",),
        parts=("count", "check_points"),
        published=only_arrays("change", "free", "*_trace"),
        agreement=AGREEMENT,
    )
)
