"""A sparse GP whose posterior N(a, B) is left free (Sec. 3.2 of Reeb et al. 2018), trained from kl-PAC-SGP's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DIVERGED, METHODS
from gpsuite.experiments.pac_bayes.methods.pac_sgp import (
    SparseBoundOptions,
    fitc_posterior,
    search_sparse_bound,
)
from gpsuite.experiments.pac_bayes.shared.certificates import Fitted
from gpsuite.experiments.pac_bayes.shared.method import (
    BOUND,
    FITC_ALPHA,
    REGRESSION,
    RISK_BOUND,
    SPARSE,
    RiskMethod,
    bound_problem,
    sparse_cost,
)
from gpsuite.experiments.pac_bayes.shared.training import (
    Trained,
    Training,
    cut_short,
    first_inducing,
    trained,
)
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.problem import Search
from gpsuite.methods.pac_bayes.sparse.free_form import FreeFormPosterior
from gpsuite.methods.pac_bayes.sparse.free_form_training import train_free_form
from gpsuite.models.config import Hyperparameters

# Of the seconds: what the training of the FITC form, from which the free posterior starts, may take.
FIRST_SHARE = 0.6


@dataclass(frozen=True, kw_only=True)
class FreeFormOptions(SparseBoundOptions):
    """A sparse GP whose posterior N(a, B) of the inducing variables is free, trained on a bound."""

    inducing: int = 50


def minimise_free_form(work: Training[FreeFormOptions], loss: Loss, Z: FloatArray | None = None) -> Trained:
    """Train a sparse GP in the FITC form on its bound, then free its posterior: the bound can only fall.

    Args:
        work: the training.
        loss: that is bounded.
        Z: inducing inputs [M, D] to start from; default: k-means centres.
    """
    options, clock = work.options, Budget(work.seconds)
    first = _fitc_form(work, loss, Z)
    if first.status == DIVERGED or first.Z is None:
        return first
    if not work.fits(clock):
        return replace(first, status=BUDGET, reason="the seconds left have no room for a free posterior")
    search = Search(work.budget(clock.left), first.hyperparameters, options.parametrisation)
    fit = train_free_form(bound_problem(work, loss), first.Z, FITC_ALPHA, search)
    freed = trained(fit.gp)
    evaluations = first.evaluations + freed.evaluations
    whole = replace(freed, evaluations=evaluations, Z=fit.Z, jitter=fit.jitter, gaussian=fit.gaussian)
    limited = first.status == BUDGET and work.seconds is not None and freed.status != DIVERGED
    return replace(whole, status=BUDGET, reason=first.reason) if limited else whole


def _fitc_form(work: Training[FreeFormOptions], loss: Loss, Z: FloatArray | None) -> Trained:
    clock, cut = Budget(None if work.seconds is None else FIRST_SHARE * work.seconds), False
    if Z is None:
        Z, cut = first_inducing(work, work.options.inducing, 0, clock)
    return cut_short(search_sparse_bound(work, loss, Z, None, work.budget(clock.left)), cut)


def free_posterior(
    options: FreeFormOptions, found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained
) -> Fitted:
    """Return the free posterior, carried to the rounded hyperparameters; the FITC form where none was freed."""
    if fit.Z is None or fit.gaussian is None:
        return fitc_posterior(options, found, X, y, fit)
    return FreeFormPosterior.carry(found, X, y, fit.Z, fit.gaussian, fit.jitter)


METHODS.register("free_form")(
    RiskMethod(
        options=FreeFormOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, SPARSE, BOUND}),
        version=3,  # the jitter stored is that of the best value; certificates are rounded outwards
        train=minimise_free_form,
        train_from=minimise_free_form,
        certify=free_posterior,
        cost=sparse_cost,
    )
)
