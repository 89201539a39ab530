"""pac_bayes/epsilon_boston: bounds and risks against the accuracy goal (Fig. 2 and Table 1 of Reeb et al. 2018)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.pac_bayes.epsilon_boston import plan, settings, summary
from gpsuite.experiments.pac_bayes.shared.method import FULL, RISK_BOUND
from gpsuite.experiments.pac_bayes.shared.plan import AGREEMENT
from gpsuite.experiments.pac_bayes.shared.run import run_fit

EXPERIMENTS.register("pac_bayes/epsilon_boston")(
    Experiment(
        settings.EpsilonSettings,
        plan.plan,
        run_fit,
        summary.summarise,
        method_traits=(RISK_BOUND, FULL),
        model_keys=("ard",),
        parts=("repetitions",),
        published=only_arrays(
            "lengthscales"
        ),  # all that is drawn; the other arrays are the model, for a certificate
        agreement=AGREEMENT,
    )
)
