"""One task: train a GP on one split and certify it, whichever way it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.budget import Budget
from gpsuite.data.loading import load
from gpsuite.data.splits import fit_standardiser, train_test_indices
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task, finite_or_none
from gpsuite.methods.pac_bayes.evaluation import Evaluation, evaluate
from gpsuite.methods.pac_bayes.hyperparameters import PAPER_GRID
from gpsuite.methods.pac_bayes.losses import LOSSES, Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, Posterior
from gpsuite.methods.pac_bayes.sparse_posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse_training import train_sparse_gp
from gpsuite.methods.pac_bayes.training import train_full_gp
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.inducing import kmeans_inducing
from gpsuite.seeds import stream

FloatArray = npt.NDArray[np.float64]

FITC = 1.0  # the sparse posterior's alpha in the paper's experiments


@dataclass(frozen=True)
class Split:
    """Standardised training and test rows; `scale` is the target's standard deviation in its own units."""

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    scale: float


@dataclass(frozen=True)
class Trained:
    """Hyperparameters as trained, before rounding, inducing inputs of a sparse model, and how training ended."""

    hyperparameters: Hyperparameters
    status: str
    reason: str
    evaluations: int
    objective: float
    Z: FloatArray | None = None


def run_fit(task: Task, shared: SharedWork) -> Outcome:
    """Train, round the prior's hyperparameters to the grid, certify, and measure on the test rows.

    Returns bound, risks, KL and errors in the units of the standardised target, and arrays with the hyperparameters
    and the split's test predictions.
    """
    params = task.params
    split = shared.once("split", lambda: read_split(task))
    epsilon = _epsilon(params["loss"], split.scale)
    if params["method"]["builder"] == "full_gp":  # does not depend on epsilon: the group trains once
        trained = shared.once("full_gp", lambda: _maximise_likelihood(split, params, task.budget_seconds))
    elif params["method"]["builder"] == "pac_sgp":
        trained = _minimise_sparse_bound(split, params, epsilon, task.budget_seconds)
    else:
        trained = _minimise_bound(split, params, epsilon, task.budget_seconds)
    if trained.status == DIVERGED:
        return Outcome({}, DIVERGED, trained.reason)
    return _evaluate(split, params, epsilon, trained)


def read_split(task: Task) -> Split:
    """Load the task's dataset, split it and standardise it as its parameters say.

    Raises:
        DataError: if the data changed since the run was planned.
    """
    if task.dataset is None:
        raise ValueError(f"{task.label}: a fit needs a dataset")
    data, params = load(task.dataset), task.params
    train, test = train_test_indices(len(data.X), params["test_share"], params["split_seed"])
    inputs = fit_standardiser(data.X, train, params["scaling"])
    target = fit_standardiser(data.y[:, :1], train, params["scaling"])
    X, y = inputs.transform(data.X), target.transform(data.y[:, :1])[:, 0]
    return Split(X[train], y[train], X[test], y[test], float(target.scale[0]))


def _epsilon(loss: Mapping[str, Any], scale: float) -> float:
    """Return the accuracy goal in standardised units; `accuracy` is given in the target's own."""
    return float(loss["epsilon"]) if "epsilon" in loss else float(loss["accuracy"]) / scale


def _loss(chosen: Mapping[str, Any], epsilon: float) -> Loss:
    return LOSSES.get(chosen["name"])(epsilon)


def _minimise_bound(
    split: Split, params: Mapping[str, Any], epsilon: float, seconds: float | None
) -> Trained:
    fit = train_full_gp(
        split.X,
        split.y,
        _loss(params["loss"], epsilon),
        objective=params["method"]["objective"],
        delta=params["delta"],
        ard=params["ard"],
        start=None,
        budget=Budget(seconds=seconds, evaluations=params["max_evaluations"]),
        parametrisation=params["method"]["parametrisation"],
    )
    return Trained(fit.hyperparameters, fit.status, fit.reason, fit.evaluations, fit.objective_value)


def _minimise_sparse_bound(
    split: Split, params: Mapping[str, Any], epsilon: float, seconds: float | None
) -> Trained:
    method = params["method"]
    inducing = min(method["inducing"], len(np.unique(split.X, axis=0)))
    fit = train_sparse_gp(
        split.X,
        split.y,
        kmeans_inducing(split.X, inducing, stream(params["split_seed"], "inducing")),
        _loss(params["loss"], epsilon),
        objective=method["objective"],
        delta=params["delta"],
        ard=params["ard"],
        alpha=FITC,
        start=None,
        budget=Budget(seconds=seconds, evaluations=params["max_evaluations"]),
        parametrisation=method["parametrisation"],
    )
    gp = fit.gp
    return Trained(gp.hyperparameters, gp.status, gp.reason, gp.evaluations, gp.objective_value, fit.Z)


def _maximise_likelihood(split: Split, params: Mapping[str, Any], seconds: float | None) -> Trained:
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.models.exact import build_gpr
    from gpsuite.models.parameters import hyperparameters_of
    from gpsuite.models.training import maximise_likelihood

    lengthscales = (1.0,) * (split.X.shape[1] if params["ard"] else 1)
    spec = ModelSpec(ard=params["ard"])
    model = build_gpr(split.X, split.y, spec, Hyperparameters(1.0, lengthscales, 1.0))
    report = maximise_likelihood(model, Budget(seconds=seconds, evaluations=params["max_evaluations"]))
    return Trained(hyperparameters_of(model), report.status, report.reason, report.evaluations, report.loss)


def _evaluate(split: Split, params: Mapping[str, Any], epsilon: float, trained: Trained) -> Outcome:
    loss = _loss(params["loss"], epsilon)
    found = evaluate(_posterior(split, trained), split.X_test, split.y_test, loss, params["delta"])
    own_units = {"rmse_test_own_units": found.mse_test**0.5 * split.scale, "epsilon_standardised": epsilon}
    numbers = {**_metrics(found), **own_units, "objective": trained.objective}
    limited = trained.status == BUDGET
    inducing = {} if trained.Z is None else {"inducing_inputs": trained.Z}
    return Outcome(
        {**{name: finite_or_none(value) for name, value in numbers.items()}, **_counts(found, trained)},
        BUDGET if limited else DONE,
        trained.reason if limited else found.certificate.reason,
        arrays={"lengthscales": np.array(found.hyperparameters.lengthscales), **inducing},
        headline=f"bound {found.bound_kl:.4f}",
    )


def _posterior(split: Split, trained: Trained) -> Posterior:
    rounded = PAPER_GRID.rounded(trained.hyperparameters)
    if trained.Z is None:
        return FullGPPosterior.fit(rounded, split.X, split.y)
    return SparseGPPosterior.fit(rounded, split.X, split.y, trained.Z, FITC)


def _metrics(found: Evaluation) -> dict[str, float]:
    penalty, prior = found.certificate.penalty, found.hyperparameters
    single = {"lengthscale": prior.lengthscales[0]} if len(prior.lengthscales) == 1 else {}
    return {
        "bound_kl": found.bound_kl,
        "bound_sqrt": found.bound_sqrt,
        "gibbs_risk_train": found.gibbs_risk_train,
        "gibbs_risk_test": found.gibbs_risk_test,
        "bayes_risk_train": found.bayes_risk_train,
        "bayes_risk_test": found.bayes_risk_test,
        "mse_train": found.mse_train,
        "mse_test": found.mse_test,
        "nll_test": found.nll_test,
        "kl": penalty.kl,
        "kl_over_n": found.kl_over_n,
        "log_theta": penalty.log_theta,
        "confidence": penalty.confidence,
        "variance": prior.variance,
        "noise_variance": prior.noise_variance,
        **single,
    }


def _counts(found: Evaluation, trained: Trained) -> dict[str, int]:
    return {
        "n_train": found.certificate.n,
        "n_test": found.n_test,
        "n_hyperparameters": found.hyperparameters.n_kernel,
        "evaluations": trained.evaluations,
    }
