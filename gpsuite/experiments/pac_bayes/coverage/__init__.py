"""pac_bayes/coverage: how often the bound holds on simulated data (Theorem 1 and Eq. 5 of Reeb et al. 2018)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.pac_bayes.coverage import plan, power, run, settings, summary
from gpsuite.experiments.pac_bayes.shared.method import BOUND, FULL, RISK_BOUND

EXPERIMENTS.register("pac_bayes/coverage")(
    Experiment(
        settings.CoverageSettings,
        plan.plan,
        {plan.CoverageTask: run.run, power.PowerTask: power.run_power},
        summary.summarise,
        method_traits=(RISK_BOUND, FULL, BOUND),
        model_keys=(),
        published=every_array,
    )
)
