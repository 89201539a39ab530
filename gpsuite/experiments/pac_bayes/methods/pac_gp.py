"""PAC-GP: a full GP trained by minimising a PAC-Bayesian bound (Sec. 3.1, Eq. 5 of Reeb et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import METHODS, MethodOptions
from gpsuite.experiments.pac_bayes.shared.method import (
    BOUND,
    FULL,
    REGRESSION,
    RISK_BOUND,
    BoundOptions,
    RiskMethod,
    bound_problem,
    full_cost,
)
from gpsuite.experiments.pac_bayes.shared.training import Trained, Training, best_start, trained
from gpsuite.experiments.settings import Count
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior
from gpsuite.methods.pac_bayes.problem import Search
from gpsuite.methods.pac_bayes.training import train_full_gp
from gpsuite.models.config import Hyperparameters


@dataclass(frozen=True, kw_only=True)
class PacGPOptions(BoundOptions):
    """A full GP trained by minimising a PAC-Bayesian bound.

    Attributes:
        starts: trainings from different starts, the best bound kept; 1 is the published single start.
    """

    starts: Count = 1

    @property
    def heading(self) -> str:
        """The title, with the starts where there are more than one."""
        own = super().heading
        return own if self.starts == 1 else f"{own}, {self.starts} starts"


def minimise_bound(work: Training[PacGPOptions], loss: Loss) -> Trained:
    """Train a full GP on its bound, from one start or more."""
    options = work.options

    def train(start: Hyperparameters | None, number: int, clock: Budget) -> Trained:
        budget = work.budget(clock.left, number, options.starts)
        return trained(
            train_full_gp(bound_problem(work, loss), Search(budget, start, options.parametrisation))
        )

    return best_start(train, work, options.starts)


def exact_posterior(
    options: MethodOptions, found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained
) -> FullGPPosterior:
    """Return the exact posterior at the rounded hyperparameters."""
    return FullGPPosterior.fit(found, X, y)


METHODS.register("pac_gp")(
    RiskMethod(
        options=PacGPOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, FULL, BOUND}),
        version=2,  # records hold a certificate
        train=minimise_bound,
        certify=exact_posterior,
        cost=full_cost,
        starts=lambda options: options.starts,
    )
)
