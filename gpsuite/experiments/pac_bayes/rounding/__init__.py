"""pac_bayes/rounding: what the hyperparameter grid costs and changes (Sec. 3.1 and App. F of Reeb et al. 2018)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.pac_bayes.rounding import plan, run, settings, summary
from gpsuite.experiments.pac_bayes.shared.method import BOUND, FULL, RISK_BOUND
from gpsuite.experiments.pac_bayes.shared.plan import AGREEMENT

EXPERIMENTS.register("pac_bayes/rounding")(
    Experiment(
        settings.RoundingSettings,
        plan.plan,
        run.run,
        summary.summarise,
        method_traits=(RISK_BOUND, FULL, BOUND),
        model_keys=("ard",),
        dataset_tasks=("regression",),
        agreement=AGREEMENT,
        published=every_array,
    )
)
