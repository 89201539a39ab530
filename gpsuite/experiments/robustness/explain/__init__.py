"""robustness/explain: what moves a classifier's decision at points of any dataset, a user's CSV included."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.robustness.explain import plan, run, settings, summary
from gpsuite.experiments.robustness.methods import CLASSIFIER
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

EXPERIMENTS.register("robustness/explain")(
    Experiment(
        settings.ExplainSettings,
        plan.plan,
        {
            plan.PointTask: run.run_point,
            plan.ClassesPointTask: run.run_classes_point,
            plan.GradientTask: run.run_gradient,
        },
        summary.summarise,
        method_traits=(CLASSIFIER,),
        dataset_tasks=("classification",),
        parts=("count", "check_points"),
        published=only_arrays("moved", "ranges", "delta", "delta_low", "delta_high", "lime"),
        agreement=AGREEMENT,
    )
)
