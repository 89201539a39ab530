"""pac_bayes/overfit_fitc: FITC's overfitting against kl-PAC-SGP (App. E of Reeb et al. 2018; Bauer et al. 2016)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.pac_bayes.overfit_fitc import plan, run, settings, summary
from gpsuite.experiments.pac_bayes.shared.method import RISK_BOUND, SPARSE
from gpsuite.experiments.pac_bayes.shared.plan import AGREEMENT

EXPERIMENTS.register("pac_bayes/overfit_fitc")(
    Experiment(
        settings.OverfitSettings,
        plan.plan,
        run.run,
        summary.summarise,
        method_traits=(RISK_BOUND, SPARSE),
        agreement=AGREEMENT,
        dataset_tasks=("regression",),
        model_keys=("ard",),
        published=every_array,
    )
)
