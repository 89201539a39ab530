"""How each of the family's methods is trained on a split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DIVERGED
from gpsuite.methods.pac_bayes.free_form import WhitenedGaussian
from gpsuite.methods.pac_bayes.free_form_training import train_free_form
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.sparse_training import (
    TrainedSparseGP,
    train_sparse_gp,
    train_sparse_likelihood,
)
from gpsuite.methods.pac_bayes.training import TrainedGP, train_full_gp
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.inducing import kmeans_inducing
from gpsuite.seeds import stream

FloatArray = npt.NDArray[np.float64]
Params = Mapping[str, Any]
Observer = Callable[[Budget], None]

FITC, VFE = 1.0, 0.0  # alpha of the sparse posteriors

# Further starts are drawn log-uniformly, in standardised units: variance, lengthscales, noise variance.
_START_RANGES = ((0.3, 3.0), (0.3, 10.0), (0.1, 3.0))


@dataclass(frozen=True)
class Trained:
    """Hyperparameters as trained, before rounding, inducing inputs of a sparse model, and how training ended.

    Attributes:
        objective: the smallest value of what was minimised.
        Z: inducing inputs [M, D]; None for a full GP.
        jitter: multiple of sigma_f^2 that K_ZZ needed; 0 if none.
        objectives: the smallest values from every start.
        gaussian: a free-form posterior of the whitened inducing variables; None for the others.
    """

    hyperparameters: Hyperparameters
    status: str
    reason: str
    evaluations: int
    objective: float
    Z: FloatArray | None = None
    jitter: float = 0.0
    objectives: tuple[float, ...] = ()
    gaussian: WhitenedGaussian | None = None


def minimise_bound(
    X: FloatArray,
    y: FloatArray,
    params: Params,
    loss: Loss,
    seconds: float | None,
    observer: Observer | None = None,
) -> Trained:
    """Train a full GP on its bound, from one start or more."""
    method = params["method"]

    def train(start: Hyperparameters | None, number: int, left: float | None) -> Trained:
        fit = train_full_gp(
            X, y, loss, objective=method["objective"], delta=params["delta"], ard=params["ard"], start=start,
            budget=_budget(params, left, observer, number), parametrisation=method["parametrisation"],
        )  # fmt: skip
        return _trained(fit)

    return _best_start(train, X.shape[1], params, Budget(seconds))


def minimise_sparse_bound(
    X: FloatArray,
    y: FloatArray,
    params: Params,
    loss: Loss,
    seconds: float | None,
    observer: Observer | None = None,
) -> Trained:
    """Train a sparse GP in the FITC form on its bound, from one start or more."""
    method = params["method"]

    def train(start: Hyperparameters | None, number: int, left: float | None) -> Trained:
        fit = train_sparse_gp(
            X, y, _first_inducing(X, params, number), loss, objective=method["objective"], delta=params["delta"],
            ard=params["ard"], alpha=FITC, start=start, budget=_budget(params, left, observer, number),
            parametrisation=method["parametrisation"],
        )  # fmt: skip
        return _trained_sparse(fit)

    return _best_start(train, X.shape[1], params, Budget(seconds))


def minimise_free_form(
    X: FloatArray,
    y: FloatArray,
    params: Params,
    loss: Loss,
    seconds: float | None,
    observer: Observer | None = None,
) -> Trained:
    """Train a sparse GP in the FITC form on its bound, then free its posterior: the bound can only fall."""
    method, clock = params["method"], Budget(seconds)
    single = {**params, "method": {**method, "starts": 1}}
    first = minimise_sparse_bound(X, y, single, loss, seconds, observer)
    if first.status == DIVERGED or first.Z is None:
        return first
    left = None if seconds is None else seconds - clock.elapsed
    fit = train_free_form(
        X, y, first.Z, loss, objective=method["objective"], delta=params["delta"], ard=params["ard"],
        start=first.hyperparameters, budget=_budget(params, left, observer), alpha=FITC,
        parametrisation=method["parametrisation"],
    )  # fmt: skip
    freed = _trained(fit.gp)
    evaluations = first.evaluations + freed.evaluations
    return replace(freed, evaluations=evaluations, Z=fit.Z, jitter=fit.jitter, gaussian=fit.gaussian)


def maximise_sparse_likelihood(
    X: FloatArray, y: FloatArray, params: Params, seconds: float | None, observer: Observer | None = None
) -> Trained:
    """Train a sparse GP by VFE's lower bound or FITC's marginal likelihood, from the published start."""
    method = params["method"]
    fit = train_sparse_likelihood(
        X, y, _first_inducing(X, params, 0), form=method["likelihood"], ard=params["ard"], start=None,
        budget=_budget(params, seconds, observer), parametrisation=method["parametrisation"],
    )  # fmt: skip
    return _trained_sparse(fit)


def maximise_full_likelihood(
    X: FloatArray, y: FloatArray, params: Params, seconds: float | None, observer: Observer | None = None
) -> Trained:
    """Train GPflow's full GP by its marginal likelihood."""
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.models.exact import build_gpr
    from gpsuite.models.parameters import hyperparameters_of
    from gpsuite.models.training import maximise_likelihood

    lengthscales = (1.0,) * (X.shape[1] if params["ard"] else 1)
    model = build_gpr(X, y, ModelSpec(ard=params["ard"]), Hyperparameters(1.0, lengthscales, 1.0))
    report = maximise_likelihood(model, _budget(params, seconds, observer))
    found = hyperparameters_of(model)
    return Trained(found, report.status, report.reason, report.evaluations, report.loss)


def _budget(params: Params, seconds: float | None, observer: Observer | None, number: int = 0) -> Budget:
    """Return the limits of one start's training."""
    starts = params["method"].get("starts", 1)
    return Budget(seconds, params["max_evaluations"], run=number + 1, runs=starts, observer=observer)


def _first_inducing(X: FloatArray, params: Params, number: int) -> FloatArray:
    """Return k-means centres, as many as M or, with duplicate rows, as there are different rows."""
    inducing = min(params["method"]["inducing"], len(np.unique(X, axis=0)))
    names = ("inducing",) if number == 0 else ("inducing", number)
    return kmeans_inducing(X, inducing, stream(params["split_seed"], *names))


def _best_start(
    train: Callable[[Hyperparameters | None, int, float | None], Trained],
    dimension: int,
    params: Params,
    clock: Budget,
) -> Trained:
    """Train from the published start, then from drawn ones; return the best with every start's objective.

    All starts share the seconds of the clock.
    """
    runs = [train(None, 0, clock.seconds)]
    for number in range(1, params["method"]["starts"]):
        if clock.exhausted:
            break
        left = None if clock.seconds is None else clock.seconds - clock.elapsed
        runs.append(train(_drawn_start(dimension if params["ard"] else 1, params, number), number, left))
    cut = len(runs) < params["method"]["starts"]
    usable = [run for run in runs if run.status != DIVERGED]
    best = min(usable or runs, key=lambda run: run.objective)
    whole = replace(
        best,
        evaluations=sum(run.evaluations for run in runs),
        objectives=tuple(run.objective for run in runs),
    )
    if cut and best.status != DIVERGED:
        return replace(whole, status=BUDGET, reason=clock.reason)
    return whole


def _drawn_start(n_lengthscales: int, params: Params, number: int) -> Hyperparameters:
    rng = stream(params["split_seed"], "start", number)
    sizes = (1, n_lengthscales, 1)
    variance, lengthscales, noise = (
        np.exp(rng.uniform(np.log(low), np.log(high), size))
        for (low, high), size in zip(_START_RANGES, sizes, strict=True)
    )
    return Hyperparameters(float(variance[0]), tuple(float(v) for v in lengthscales), float(noise[0]))


def _trained(fit: TrainedGP) -> Trained:
    return Trained(fit.hyperparameters, fit.status, fit.reason, fit.evaluations, fit.objective_value)


def _trained_sparse(fit: TrainedSparseGP) -> Trained:
    gp = fit.gp
    return Trained(
        gp.hyperparameters, gp.status, gp.reason, gp.evaluations, gp.objective_value, fit.Z, fit.jitter
    )
