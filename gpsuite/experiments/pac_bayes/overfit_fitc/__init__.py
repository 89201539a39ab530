"""pac_bayes/overfit_fitc: FITC's overfitting against kl-PAC-SGP (App. E of Reeb et al. 2018; Bauer et al. 2016)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.pac_bayes.overfit_fitc.plan import plan
from gpsuite.experiments.pac_bayes.overfit_fitc.run import run
from gpsuite.experiments.pac_bayes.overfit_fitc.settings import OverfitSettings
from gpsuite.experiments.pac_bayes.overfit_fitc.summary import summarise
from gpsuite.experiments.pac_bayes.shared.plan import AGREEMENT

EXPERIMENTS.register("pac_bayes/overfit_fitc")(
    Experiment(
        OverfitSettings,
        plan,
        run,
        summarise,
        builders=("pac_sgp", "sparse_gp"),
        agreement=AGREEMENT,
        dataset_tasks=("regression",),
    )
)
