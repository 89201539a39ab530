"""One task: train a GP on one split and certify it, whichever way it is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import fit_standardiser, train_test_indices
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    INFEASIBLE,
    SKIPPED,
    MethodOptions,
    Outcome,
    SharedWork,
    Task,
    finite_or_none,
)
from gpsuite.experiments.pac_bayes.shared.certificates import stored_certificate
from gpsuite.experiments.pac_bayes.shared.method import FitSize, risk_method, sparse_options
from gpsuite.experiments.pac_bayes.shared.tasks import FitTask, TrainingTask, loss_of
from gpsuite.experiments.pac_bayes.shared.training import Trained, Training
from gpsuite.methods.pac_bayes.bounds.held_out import binomial_upper_bound, mean_loss_upper_bound
from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import PAPER_GRID
from gpsuite.methods.pac_bayes.copies import ALL_DIFFERENT, Copies, FewDifferentError
from gpsuite.methods.pac_bayes.cost import Cost
from gpsuite.methods.pac_bayes.evaluation import Evaluation, evaluate
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior

VACUOUS = 0.99  # an upper bound on a risk this close to 1 says nothing


OVERRUN = 1.2  # of the seconds, or one second more: what a fit may take before it is not begun


NO_DEVIATION = "the training targets are all equal: epsilon has no unit; use scaling=all, or accuracy="


@dataclass(frozen=True)
class Split:
    """Standardised training and test rows.

    Attributes:
        X: training inputs [N, D].
        y: training targets [N].
        X_test: test inputs [N', D].
        y_test: test targets [N'].
        scale: the target's standard deviation in its own units.
        copies: which rows are copies of others.
    """

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    scale: float
    copies: Copies = ALL_DIFFERENT


def run_fit(task: Task[FitTask], shared: SharedWork) -> Outcome:
    """Train, round the prior's hyperparameters to the grid, certify, and measure on the test rows.

    Returns bound, risks, KL and errors in the units of the standardised target, and arrays with all that a check of
    the bound needs but the dataset.
    """
    params = task.params
    try:
        split = shared.once("split", lambda: read_split(task.require_dataset(), params))
    except FewDifferentError as error:
        return Outcome({}, INFEASIBLE, str(error))
    if params.loss.epsilon is not None and params.scaling == "train" and np.ptp(split.y) == 0.0:
        return Outcome({}, INFEASIBLE, NO_DEVIATION)
    epsilon = params.loss.width(split.scale)
    seconds = task.budget_seconds
    cost = None if seconds is None else _cost(split, params)
    if seconds is not None and cost is not None and cost.least > max(OVERRUN * seconds, seconds + 1.0):
        return Outcome({}, SKIPPED, _too_short(split, params, seconds, cost))
    work = training_of(params, split, seconds, shared, cost)
    trained = train(work, loss_of(params.loss.name, epsilon), shared)
    if trained.status == DIVERGED:
        return Outcome({}, DIVERGED, trained.reason)
    return _evaluate(task.require_dataset(), split, params, epsilon, trained)


def read_split(dataset: PreparedDataset, params: FitTask) -> Split:
    """Load a dataset, split it and standardise it as the parameters say.

    Raises:
        DataError: if the data changed since the run was planned.
    """
    data = load(dataset)
    train, test = train_test_indices(len(data.X), params.test_share, params.split_seed)
    inputs = fit_standardiser(data.X, train, params.scaling)
    target = fit_standardiser(data.y[:, :1], train, params.scaling)
    X, y = inputs.transform(data.X), target.transform(data.y[:, :1])[:, 0]
    copies = Copies.of_split(train, test, data.groups)
    return Split(X[train], y[train], X[test], y[test], float(target.scale[0]), copies)


def _cost(split: Split, params: FitTask) -> Cost:
    """Return what an evaluation and the certificate take."""
    size = FitSize(len(split.y), len(split.y_test), split.X.shape[1], 1 + len(params.also))
    return risk_method(params.method).cost(params.method, size)


def _too_short(split: Split, params: FitTask, seconds: float, cost: Cost) -> str:
    """Return why not even one evaluation fits, and what to do."""
    sparse = sparse_options(params.method)
    model, advice = "full GP", "take a sparse one (method=kl_pac_sgp)"
    if sparse is not None:
        model, advice = (
            f"sparse GP with M = {sparse.inducing}",
            "take fewer inducing inputs (method.inducing)",
        )
    return (
        f"budget.seconds={seconds:g} is too short: one evaluation and the certificate of a {model} with "
        f"{len(split.y)} rows take about {math.ceil(cost.least)} seconds; {advice} "
        f"or budget.seconds={math.ceil(1.5 * cost.least)}"
    )


def training_of(
    params: TrainingTask, split: Split, seconds: float | None, shared: SharedWork, cost: Cost | None = None
) -> Training[MethodOptions]:
    """Return a task's training on the training rows of a split.

    Args:
        params: of the task.
        split: its rows.
        seconds: its limit.
        shared: tells who watches.
        cost: of an evaluation, where seconds count.
    """
    return Training(
        split.X, split.y, params.method, params.ard, params.delta, params.max_evaluations, params.split_seed,
        seconds, shared.observer, cost,
    )  # fmt: skip


def train(work: Training[MethodOptions], loss: Loss, shared: SharedWork) -> Trained:
    """Train as the method says, once for a group whose tasks share the training."""
    method = risk_method(work.options)
    if method.shares_training(work.options):
        return shared.once("trained", lambda: method.train(work, loss))
    return method.train(work, loss)


def _evaluate(
    data: PreparedDataset, split: Split, params: FitTask, epsilon: float, trained: Trained
) -> Outcome:
    rounded = PAPER_GRID.rounded(trained.hyperparameters)
    posterior = risk_method(params.method).certify(params.method, rounded, split.X, split.y, trained)
    loss, delta = loss_of(params.loss.name, epsilon), params.delta
    found = evaluate(posterior, split.X_test, split.y_test, loss, delta, copies=split.copies)
    numbers = {
        **_metrics(found),
        **_held_out(found, params.loss.name, delta),
        "rmse_test_own_units": found.mse_test**0.5 * split.scale,
        "epsilon_standardised": epsilon,
        "objective": trained.objective,
        "jitter": 0.0 if isinstance(posterior, FullGPPosterior) else posterior.inducing.jitter,
        **_spread(trained),
    }
    for name in params.also:
        other = evaluate(
            posterior, split.X_test, split.y_test, loss_of(name, epsilon), delta, copies=split.copies
        )
        chosen = ("bound_kl", "gibbs_risk_train", "gibbs_risk_test")
        numbers |= {f"{metric}_{name}": getattr(other, metric) for metric in chosen}
    limited = trained.status == BUDGET
    vacuous = f"the bound is vacuous: {found.bound_kl:.4f}" if found.bound_kl >= VACUOUS else ""
    return Outcome(
        {**{name: finite_or_none(value) for name, value in numbers.items()}, **_counts(found, trained)},
        BUDGET if limited else DONE,
        trained.reason if limited else found.certificate.reason or vacuous,
        arrays=stored_certificate(data, params, posterior, found),
        headline=f"bound {found.bound_kl:.4f}{' (vacuous)' if vacuous else ''}",
    )


def _held_out(found: Evaluation, loss: str, delta: float) -> dict[str, float]:
    """Return bounds from the test rows alone, each valid on its own with probability 1 - delta."""
    bounds = {"test_bound_gibbs": mean_loss_upper_bound(min(found.gibbs_risk_test, 1.0), found.n_test, delta)}
    if loss == "band01":
        errors = math.ceil(found.bayes_risk_test * found.n_test - 1e-6)
        bounds["test_bound_bayes"] = binomial_upper_bound(errors, found.n_test, delta)
    return bounds


def _spread(trained: Trained) -> dict[str, float]:
    """Return by how much the worst start's objective exceeds the best's, where there were several."""
    ends = [value for value in trained.objectives if math.isfinite(value)]
    return {"start_spread": max(ends) - min(ends)} if len(trained.objectives) > 1 else {}


def _metrics(found: Evaluation) -> dict[str, float]:
    penalty, prior = found.certificate.penalty, found.hyperparameters
    single = {"lengthscale": prior.lengthscales[0]} if len(prior.lengthscales) == 1 else {}
    return {
        "bound_kl": found.bound_kl,
        "bound_sqrt": found.bound_sqrt,
        "bound_bayes": found.certificate.bound_bayes,
        "lower_kl": found.certificate.lower_kl,
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
