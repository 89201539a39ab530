"""One fit of pac_bayes/rounding: its bound before and after rounding to each grid."""

from __future__ import annotations

import numpy as np

from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    INFEASIBLE,
    Outcome,
    SharedWork,
    Task,
    finite_or_none,
)
from gpsuite.experiments.pac_bayes.rounding.plan import RoundingTask
from gpsuite.experiments.pac_bayes.shared.method import risk_method
from gpsuite.experiments.pac_bayes.shared.run import Split, read_split, training_of
from gpsuite.experiments.pac_bayes.shared.tasks import loss_of
from gpsuite.experiments.pac_bayes.shared.training import Trained
from gpsuite.methods.pac_bayes.bounds.certificates import Terms, certify
from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import HyperparameterGrid
from gpsuite.methods.pac_bayes.copies import FewDifferentError, cautious_risk
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, RiskAndKL

# of a record, in the order of the table
RECORDED = ("bound_kl", "log_theta_over_n", "bound_change", "mean_change", "gibbs_risk_test", "mse_test")


AGAINST_PAPER = "bound_against_two_decimals"


def run(task: Task[RoundingTask], shared: SharedWork) -> Outcome:
    """Train on the bound, round to the task's grid, certify with that grid's penalty, compare with no rounding."""
    fit = task.params
    try:
        split = shared.once("split", lambda: read_split(task.require_dataset(), fit))
    except FewDifferentError as error:
        return Outcome({}, INFEASIBLE, str(error))
    loss = loss_of(fit.loss.name, fit.loss.given)
    work = training_of(fit, split, task.budget_seconds, shared)
    trained = shared.once("trained", lambda: risk_method(fit.method).train(work, loss))
    if trained.status == DIVERGED:
        return Outcome({}, DIVERGED, trained.reason)
    numbers = compare_rounding(split, trained, loss, fit.delta, HyperparameterGrid(task.params.decimals))
    return Outcome(
        {name: finite_or_none(value) for name, value in numbers.items()},
        BUDGET if trained.status == BUDGET else DONE,
        trained.reason if trained.status == BUDGET else "",
        headline=f"bound {numbers['bound_kl']:.4f}, rounding {numbers['bound_change']:+.1e}",
    )


def compare_rounding(
    split: Split, trained: Trained, loss: Loss, delta: float, grid: HyperparameterGrid
) -> dict[str, float]:
    """Return the certificate on a grid and what rounding to it changed.

    Off the grid the bound's formula has no guarantee: its value at the unrounded hyperparameters, with the same
    penalty, only measures the change.
    """
    kept = FullGPPosterior.fit(trained.hyperparameters, split.X, split.y)
    rounded = FullGPPosterior.fit(grid.rounded(trained.hyperparameters), split.X, split.y)
    found = evaluate(rounded, split.X_test, split.y_test, loss, delta, grid, copies=split.copies)
    counted = trained.hyperparameters.n_kernel
    risk, slack, independent = cautious_risk(kept, loss, split.copies)
    terms = Terms(independent, counted, delta, grid)
    formula = certify(RiskAndKL(risk, kept.kl), terms, RiskAndKL(slack, kept.rounding(loss).kl))
    return {
        "bound_kl": found.bound_kl,
        "bound_unrounded": formula.bound_kl,
        "bound_change": found.bound_kl - formula.bound_kl,
        "mean_change": float(np.abs(rounded.predict(split.X_test)[0] - kept.predict(split.X_test)[0]).max()),
        "log_theta_over_n": found.certificate.penalty.log_theta / independent,
        "kl_over_n": found.kl_over_n,
        "gibbs_risk_train": found.gibbs_risk_train,
        "gibbs_risk_test": found.gibbs_risk_test,
        "mse_test": found.mse_test,
        "n_hyperparameters": counted,
    }
