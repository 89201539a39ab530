"""One task of pac_bayes/predictive_snelson: train on all rows, certify, and predict along the only input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.data.loading import load
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    MethodOptions,
    Outcome,
    SharedWork,
    Task,
    finite_or_none,
)
from gpsuite.experiments.pac_bayes.predictive_snelson.plan import PredictiveTask
from gpsuite.experiments.pac_bayes.shared.method import risk_method, sparse_options
from gpsuite.experiments.pac_bayes.shared.training import Trained, Training
from gpsuite.methods.pac_bayes.bounds.certificates import Terms, certify
from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import PAPER_GRID
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL, gibbs_risk
from gpsuite.models.regression.inducing import kmeans_inducing
from gpsuite.seeds import stream

CURVE_POINTS = 401


CURVE_MARGIN = 0.1  # of the inputs' range, drawn on both sides


AS_GOOD = 1e-4  # a start counts as good as the best when its objective is this close


@dataclass(frozen=True)
class _Fitted:
    """A trained model before rounding; the inducing inputs at the start and at the end [M, 1], none of a full GP."""

    trained: Trained
    start: FloatArray
    end: FloatArray
    share_as_good: float = 1.0


def run(task: Task[PredictiveTask], shared: SharedWork) -> Outcome:
    """Train on all rows in their own units, round to the grid, certify, and predict along the input.

    Returns metrics, among them how far the inducing inputs moved and how rough the mean is, and arrays with the
    curve (x, mean, standard deviation of the latent function) and the inducing inputs before and after.
    """
    data, params = load(task.require_dataset()), task.params
    X, y = data.X, data.y[:, 0]
    options, loss = params.method, BandLoss(params.epsilon)
    work = Training(
        X, y, options, params.ard, params.delta, params.max_evaluations, params.seed, task.budget_seconds
    )
    fitted = shared.once("fitted", lambda: _fit(work, loss, params.starts))
    trained = fitted.trained
    if trained.status == DIVERGED:
        return Outcome({}, DIVERGED, trained.reason)
    rounded = PAPER_GRID.rounded(trained.hyperparameters)
    posterior = risk_method(options).certify(options, rounded, X, y, trained)
    found = posterior.hyperparameters
    risk = gibbs_risk(posterior, loss)
    certificate = certify(RiskAndKL(risk, posterior.kl), Terms(len(y), found.n_kernel, params.delta))
    x = _curve_inputs(X)
    mean, variance = posterior.predict(x[:, None])
    numbers = {
        "kl_over_n": posterior.kl / len(y),
        "bound_kl": certificate.bound_kl,
        "gibbs_risk_train": certificate.gibbs_risk,
        "noise_std": found.noise_variance**0.5,
        "variance": found.variance,
        "lengthscale": found.lengthscales[0],
        "displacement": _displacement(fitted),
        "roughness": roughness(posterior.predict, float(X.min()), float(X.max())),
        "objective": trained.objective,
        "share_as_good": fitted.share_as_good,
    }
    arrays = {"x": x, "mean": mean, "std": np.sqrt(variance), "start": fitted.start, "end": fitted.end}
    return Outcome(
        {name: finite_or_none(value) for name, value in numbers.items()},
        BUDGET if trained.status == BUDGET else DONE,
        trained.reason if trained.status == BUDGET else certificate.reason,
        arrays=arrays,
        headline=f"KL/n {numbers['kl_over_n']:.4f}",
    )


def roughness(
    predict: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    low: float,
    high: float,
    points: int = 2001,
) -> float:
    """Return the integral of the squared second derivative of the predictive mean from `low` to `high`.

    Central differences and the trapezoidal rule on an even grid of `points` inputs.
    """
    x, step = np.linspace(low, high, points, retstep=True)
    mean, _ = predict(x[:, None])
    bend = np.diff(mean, 2) / step**2
    squared = bend**2
    return float(step * (squared.sum() - 0.5 * (squared[0] + squared[-1])))


def _curve_inputs(X: FloatArray) -> FloatArray:
    low, high = float(X.min()), float(X.max())
    margin = CURVE_MARGIN * (high - low)
    return np.linspace(low - margin, high + margin, CURVE_POINTS)


def _displacement(fitted: _Fitted) -> float:
    """Return the mean distance of the inducing inputs from their start; NaN without any."""
    if not len(fitted.end):
        return float("nan")
    return float(np.mean(np.linalg.norm(fitted.end - fitted.start, axis=1)))


def _fit(work: Training[MethodOptions], loss: BandLoss, starts: int) -> _Fitted:
    """Train a full GP; a sparse one from several k-means clusterings: the first that ends as low as the best."""
    method, sparse = risk_method(work.options), sparse_options(work.options)
    if method.train_from is None or sparse is None:
        none = np.empty((0, work.X.shape[1]))
        return _Fitted(method.train(work, loss), none, none)
    clock, runs = Budget(seconds=work.seconds), list[tuple[FloatArray, Trained]]()
    inducing = min(sparse.inducing, len(np.unique(work.X, axis=0)))
    for number in range(starts):
        if runs and clock.exhausted:
            break
        start = kmeans_inducing(work.X, inducing, stream(work.seed, "inducing", number))
        runs.append((start, method.train_from(replace(work, seconds=clock.left), loss, start)))
    lowest = min(run.objective for _, run in runs)
    as_low = [run.objective <= lowest + AS_GOOD for _, run in runs]
    # not the very lowest: spare inducing inputs can wander far for a millionth of the bound
    start, best = runs[as_low.index(True)]
    end = start if best.Z is None else best.Z
    if len(runs) < starts:
        best = replace(best, status=BUDGET, reason=clock.reason)
    return _Fitted(best, start, end, float(np.mean(as_low)))
