"""pac_bayes/inducing_*: bounds and risks against the number of inducing inputs (Reeb et al. 2018, Fig. 3, Table 2)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.pac_bayes.inducing import plan, settings, summary
from gpsuite.experiments.pac_bayes.shared.method import RISK_BOUND, SPARSE
from gpsuite.experiments.pac_bayes.shared.plan import AGREEMENT
from gpsuite.experiments.pac_bayes.shared.run import run_fit

for _name in ("inducing_pol", "inducing_kin40k", "inducing_sarcos"):
    EXPERIMENTS.register(f"pac_bayes/{_name}")(
        Experiment(
            settings.InducingSettings,
            plan.plan,
            run_fit,
            summary.summarise,
            method_traits=(RISK_BOUND, SPARSE),
            model_keys=("ard",),
            dataset_tasks=("regression",),
            parts=("repetitions", "inducing", "methods", "other_kernel_inducing"),
            published=only_arrays(
                "lengthscales"
            ),  # all that is drawn; the other arrays are the model, for a certificate
            agreement=AGREEMENT,
        )
    )
