"""A sparse GP trained by VFE's lower bound (Titsias 2009) or FITC's likelihood (Snelson & Ghahramani 2006)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import METHODS
from gpsuite.experiments.pac_bayes.methods.pac_sgp import sparse_posterior
from gpsuite.experiments.pac_bayes.shared.method import (
    FITC_ALPHA,
    LIKELIHOOD,
    PARAMETRISATIONS,
    REGRESSION,
    RISK_BOUND,
    SPARSE,
    VFE_ALPHA,
    FitSize,
    RiskMethod,
    SparseOptions,
    sparse_cost,
)
from gpsuite.experiments.pac_bayes.shared.training import (
    Trained,
    Training,
    cut_short,
    first_inducing,
    trained_sparse,
)
from gpsuite.experiments.settings import one_of
from gpsuite.methods.pac_bayes.cost import Cost
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.sparse.likelihood import Form
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import train_sparse_likelihood
from gpsuite.models.config import Hyperparameters

ALPHAS = {"vfe": VFE_ALPHA, "fitc": FITC_ALPHA}


@dataclass(frozen=True, kw_only=True)
class SparseGPOptions(SparseOptions):
    """A sparse GP trained by its own objective, over hyperparameters and inducing inputs.

    Attributes:
        likelihood: the objective: vfe (Titsias' lower bound) or fitc (FITC's marginal likelihood).
        posterior: whose risk and KL are certified; vfe training can also be certified with FITC's posterior.
        parametrisation: of the search, softplus (GPflow's) or log.
    """

    likelihood: Annotated[str, one_of(ALPHAS)]
    posterior: Annotated[str, one_of(ALPHAS)]
    parametrisation: Annotated[str, one_of(PARAMETRISATIONS)] = "softplus"


def maximise_sparse_likelihood(work: Training[SparseGPOptions], loss: Loss) -> Trained:
    """Train a sparse GP by VFE's lower bound or FITC's marginal likelihood, neither of which knows the loss."""
    clock = Budget(work.seconds)
    Z, cut = first_inducing(work, work.options.inducing, 0, clock)
    return cut_short(_search(work, Z, work.budget(clock.left)), cut)


def maximise_from(work: Training[SparseGPOptions], loss: Loss, Z: FloatArray) -> Trained:
    """Train once from given inducing inputs [M, D]."""
    return _search(work, Z, work.budget(work.seconds))


def _search(work: Training[SparseGPOptions], Z: FloatArray, budget: Budget) -> Trained:
    options = work.options
    form, search = (
        cast(Form, options.likelihood),
        options.search_within(budget, None, options.parametrisation),
    )
    fit = train_sparse_likelihood(work.X, work.y, Z, form, work.ard, search)
    return trained_sparse(fit)


def own_posterior(
    options: SparseGPOptions, found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained
) -> SparseGPPosterior:
    """Return the posterior that the options ask for, at the rounded hyperparameters."""
    return sparse_posterior(found, X, y, fit, ALPHAS[options.posterior])


def likelihood_cost(options: SparseGPOptions, size: FitSize) -> Cost:
    """Return the cost of the likelihood that is maximised."""
    return sparse_cost(options, size, options.likelihood)


METHODS.register("sparse_gp")(
    RiskMethod(
        options=SparseGPOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, SPARSE, LIKELIHOOD}),
        version=2,  # certificates are rounded outwards, with a jitter where rounding decides a pivot
        train=maximise_sparse_likelihood,
        train_from=maximise_from,
        certify=own_posterior,
        cost=likelihood_cost,
        shares_training=lambda options: f"{options.likelihood}/{options.inducing}/{options.search}",
    )
)
