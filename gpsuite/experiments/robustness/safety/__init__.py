"""robustness/safety: a certified class-probability range for points of any dataset, a user's CSV included."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.robustness.methods import GAUSSIAN_LATENT
from gpsuite.experiments.robustness.safety import plan, run, settings, several, summary
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

EXPERIMENTS.register("robustness/safety")(
    Experiment(
        settings.SafetySettings,
        plan.plan,
        {plan.PointTask: run.run_point, plan.CheckTask: run.run_check, plan.ClassesTask: several.run_classes},
        summary.summarise,
        method_traits=(GAUSSIAN_LATENT,),
        dataset_tasks=("classification",),
        parts=("count", "check_points"),
        published=only_arrays("change", "free", "*_trace"),
        agreement=AGREEMENT,
    )
)
