"""PAC-SGP: a sparse GP in the FITC form trained by minimising a bound (Sec. 3.2, Eq. 9 to 11 of Reeb et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import METHODS, MethodOptions
from gpsuite.experiments.pac_bayes.methods.pac_gp import PacGPOptions
from gpsuite.experiments.pac_bayes.shared.method import (
    BOUND,
    FITC_ALPHA,
    REGRESSION,
    RISK_BOUND,
    SPARSE,
    BoundOptions,
    RiskMethod,
    SparseOptions,
    bound_problem,
    sparse_cost,
)
from gpsuite.experiments.pac_bayes.shared.training import (
    Trained,
    Training,
    best_start,
    cut_short,
    first_inducing,
    trained_sparse,
)
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import train_sparse_gp
from gpsuite.models.config import Hyperparameters


@dataclass(frozen=True, kw_only=True)
class SparseBoundOptions(BoundOptions, SparseOptions):
    """A sparse GP trained by minimising a PAC-Bayesian bound."""


@dataclass(frozen=True, kw_only=True)
class PacSGPOptions(PacGPOptions, SparseBoundOptions):
    """A sparse GP in the FITC form, trained by minimising a bound over hyperparameters and inducing inputs."""


def minimise_sparse_bound(work: Training[PacSGPOptions], loss: Loss) -> Trained:
    """Train a sparse GP in the FITC form on its bound, from one start or more."""
    starts = work.options.starts

    def train(start: Hyperparameters | None, number: int, clock: Budget) -> Trained:
        Z, cut = first_inducing(work, work.options.inducing, number, clock)
        budget = work.budget(clock.left, number, starts)
        return cut_short(search_sparse_bound(work, loss, Z, start, budget), cut)

    return best_start(train, work, starts)


def minimise_from(work: Training[PacSGPOptions], loss: Loss, Z: FloatArray) -> Trained:
    """Train once from the published start and given inducing inputs [M, D]."""
    return search_sparse_bound(work, loss, Z, None, work.budget(work.seconds))


def search_sparse_bound(
    work: Training[SparseBoundOptions],
    loss: Loss,
    Z: FloatArray,
    start: Hyperparameters | None,
    budget: Budget,
) -> Trained:
    """Minimise the bound of the FITC form from a start (None: the published one) within a budget of its own."""
    search = work.options.search_within(budget, start, work.options.parametrisation)
    return trained_sparse(train_sparse_gp(bound_problem(work, loss), Z, FITC_ALPHA, search))


def fitc_posterior(
    options: MethodOptions, found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained
) -> SparseGPPosterior:
    """Return FITC's posterior at the rounded hyperparameters and the trained inducing inputs."""
    return sparse_posterior(found, X, y, fit, FITC_ALPHA)


def sparse_posterior(
    found: Hyperparameters, X: FloatArray, y: FloatArray, fit: Trained, alpha: float
) -> SparseGPPosterior:
    """Return the sparse posterior of an alpha at the rounded hyperparameters and the trained inducing inputs.

    Raises:
        ValueError: if the fit has no inducing inputs.
    """
    if fit.Z is None:
        raise ValueError("a sparse posterior needs inducing inputs")
    return SparseGPPosterior.fit(found, X, y, fit.Z, alpha)


METHODS.register("pac_sgp")(
    RiskMethod(
        options=PacSGPOptions,
        dataset_tasks=REGRESSION,
        traits=frozenset({RISK_BOUND, SPARSE, BOUND}),
        version=2,  # certificates are rounded outwards, with a jitter where rounding decides a pivot
        train=minimise_sparse_bound,
        train_from=minimise_from,
        certify=fitc_posterior,
        cost=sparse_cost,
        starts=lambda options: options.starts,
    )
)
