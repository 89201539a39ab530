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
from gpsuite.methods.pac_bayes.training import maximise_full_likelihood


@dataclass(frozen=True, kw_only=True)
class FullGPOptions(MethodOptions):
    """A full GP trained by its marginal likelihood."""


def maximise_likelihood(work: Training[FullGPOptions], loss: Loss) -> Trained:
    """Train a full GP by its marginal likelihood, which does not know the loss."""
    found, search = maximise_full_likelihood(work.X, work.y, work.ard, work.budget(work.seconds))
    return Trained(found, search.status, search.reason, search.evaluations, search.loss)


METHODS.register("full_gp")(
    RiskMethod(
        options=FullGPOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, FULL, LIKELIHOOD}),
        version=3,  # trained without TensorFlow: the search stops elsewhere along flat directions
        train=maximise_likelihood,
        certify=exact_posterior,
        cost=full_cost,
        shares_training=lambda options: options.builder,
    )
)
