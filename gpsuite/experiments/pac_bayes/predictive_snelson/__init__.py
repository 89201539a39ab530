"""pac_bayes/predictive_snelson: what the accuracy goal does to predictions (Fig. 1, App. E of Reeb et al. 2018)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.pac_bayes.predictive_snelson import plan, run, settings, summary
from gpsuite.experiments.pac_bayes.shared.method import RISK_BOUND
from gpsuite.experiments.pac_bayes.shared.plan import AGREEMENT

EXPERIMENTS.register("pac_bayes/predictive_snelson")(
    Experiment(
        settings.PredictiveSettings,
        plan.plan,
        run.run,
        summary.summarise,
        method_traits=(RISK_BOUND,),
        agreement=AGREEMENT,
        model_keys=("ard",),
        published=every_array,
    )
)
