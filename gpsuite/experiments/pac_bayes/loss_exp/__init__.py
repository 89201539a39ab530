"""pac_bayes/loss_exp: the exponential loss in place of the 0-1 band loss (Reeb et al. 2018, Table 3 and Fig. 5)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.pac_bayes.loss_exp import plan, settings, summary
from gpsuite.experiments.pac_bayes.shared.method import RISK_BOUND, SPARSE
from gpsuite.experiments.pac_bayes.shared.plan import AGREEMENT
from gpsuite.experiments.pac_bayes.shared.run import run_fit

EXPERIMENTS.register("pac_bayes/loss_exp")(
    Experiment(
        settings.ExponentialSettings,
        plan.plan,
        run_fit,
        summary.summarise,
        method_traits=(RISK_BOUND, SPARSE),
        model_keys=("ard",),
        dataset_tasks=("regression",),
        several_datasets=True,
        parts=("repetitions", "inducing", "methods"),
        published=only_arrays(
            "lengthscales"
        ),  # all that is drawn; the other arrays are the model, for a certificate
        agreement=AGREEMENT,
    )
)
