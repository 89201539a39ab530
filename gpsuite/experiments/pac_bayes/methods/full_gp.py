"""A full GP trained by its marginal likelihood (Rasmussen & Williams 2006, Eq. 2.30), certified afterwards."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import METHODS, MethodOptions
from gpsuite.experiments.pac_bayes.methods.pac_gp import exact_posterior
from gpsuite.experiments.pac_bayes.shared.method import (
    FULL,
    LIKELIHOOD,
    REGRESSION,
    RISK_BOUND,
    RiskMethod,
    full_cost,
)
from gpsuite.experiments.pac_bayes.shared.training import Trained, Training
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.models.config import Hyperparameters, ModelSpec


@dataclass(frozen=True, kw_only=True)
class FullGPOptions(MethodOptions):
    """A full GP trained by its marginal likelihood."""


def maximise_likelihood(work: Training[FullGPOptions], loss: Loss) -> Trained:
    """Train GPflow's full GP by its marginal likelihood, which does not know the loss."""
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.models.regression import training
    from gpsuite.models.regression.exact import build_gpr
    from gpsuite.models.regression.parameters import hyperparameters_of

    start = Hyperparameters(1.0, (1.0,) * work.n_lengthscales, 1.0)
    model = build_gpr(work.X, work.y, ModelSpec(ard=work.ard), start)
    report = training.maximise_likelihood(model, work.budget(work.seconds))
    return Trained(hyperparameters_of(model), report.status, report.reason, report.evaluations, report.loss)


METHODS.register("full_gp")(
    RiskMethod(
        options=FullGPOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, FULL, LIKELIHOOD}),
        version=2,  # records hold a certificate
        train=maximise_likelihood,
        certify=exact_posterior,
        cost=full_cost,
        shares_training=lambda options: options.builder,
    )
)
