"""One task of pac_bayes/predictive_snelson: train on all rows, certify, and predict along the only input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.budget import Budget
from gpsuite.data.loading import load
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.pac_bayes.shared.trainers import FITC, VFE, Training, maximise_full_likelihood
from gpsuite.methods.pac_bayes.bounds.certificates import Terms, certify
from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import PAPER_GRID
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, Posterior, RiskAndKL, gibbs_risk
from gpsuite.methods.pac_bayes.problem import Problem, Search
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import (
    TrainedSparseGP,
    train_sparse_gp,
    train_sparse_likelihood,
)
from gpsuite.models.config import Hyperparameters
from gpsuite.models.regression.inducing import kmeans_inducing
from gpsuite.seeds import stream

FloatArray = npt.NDArray[np.float64]


CURVE_POINTS = 401


CURVE_MARGIN = 0.1  # of the inputs' range, drawn on both sides


AS_GOOD = 1e-4  # a start counts as good as the best when its objective is this close


@dataclass(frozen=True)
class _Fitted:
    """A trained model before rounding; the inducing inputs at the start and at the end [M, 1], none of a full GP."""

    hyperparameters: Hyperparameters
    objective: float
    status: str
    reason: str
    start: FloatArray
    end: FloatArray
    share_as_good: float = 1.0


def run(task: Task, shared: SharedWork) -> Outcome:
    """Train on all rows in their own units, round to the grid, certify, and predict along the input.

    Returns metrics, among them how far the inducing inputs moved and how rough the mean is, and arrays with the
    curve (x, mean, standard deviation of the latent function) and the inducing inputs before and after.
    """
    if task.dataset is None:
        raise ValueError(f"{task.label}: a fit needs a dataset")
    data, params = load(task.dataset), task.params
    X, y = data.X, data.y[:, 0]
    fitted = shared.once("fitted", lambda: _fit(X, y, params, task.budget_seconds))
    if fitted.status == DIVERGED:
        return Outcome({}, DIVERGED, fitted.reason)
    posterior = _posterior(X, y, params["method"], fitted)
    found = posterior.hyperparameters
    risk = gibbs_risk(posterior, BandLoss(params["epsilon"]))
    certificate = certify(RiskAndKL(risk, posterior.kl), Terms(len(y), found.n_kernel, params["delta"]))
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
        "objective": fitted.objective,
        "share_as_good": fitted.share_as_good,
    }
    arrays = {"x": x, "mean": mean, "std": np.sqrt(variance), "start": fitted.start, "end": fitted.end}
    return Outcome(
        {name: finite_or_none(value) for name, value in numbers.items()},
        BUDGET if fitted.status == BUDGET else DONE,
        fitted.reason if fitted.status == BUDGET else certificate.reason,
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


def _fit(X: FloatArray, y: FloatArray, params: Mapping[str, Any], seconds: float | None) -> _Fitted:
    if params["method"]["builder"] == "full_gp":
        trained = maximise_full_likelihood(Training(X, y, params, seconds))
        none = np.empty((0, X.shape[1]))
        return _Fitted(trained.hyperparameters, trained.objective, trained.status, trained.reason, none, none)
    return _best_start(X, y, params, Budget(seconds=seconds))


def _best_start(X: FloatArray, y: FloatArray, params: Mapping[str, Any], clock: Budget) -> _Fitted:
    """Train from several k-means clusterings; return the first that ends as low as the best, up to `AS_GOOD`."""
    inducing = min(params["method"]["inducing"], len(np.unique(X, axis=0)))
    runs: list[tuple[FloatArray, TrainedSparseGP]] = []
    for number in range(params["starts"]):
        if runs and clock.exhausted:
            break
        start = kmeans_inducing(X, inducing, stream(params["seed"], "inducing", number))
        runs.append((start, _train(X, y, start, params, clock)))
    lowest = min(run.gp.objective_value for _, run in runs)
    as_low = [run.gp.objective_value <= lowest + AS_GOOD for _, run in runs]
    # not the very lowest: spare inducing inputs can wander far for a millionth of the bound
    start, best = runs[as_low.index(True)]
    cut = len(runs) < params["starts"]
    return _Fitted(
        best.gp.hyperparameters,
        best.gp.objective_value,
        BUDGET if cut else best.gp.status,
        clock.reason if cut else best.gp.reason,
        start,
        best.Z,
        float(np.mean(as_low)),
    )


def _train(
    X: FloatArray, y: FloatArray, start: FloatArray, params: Mapping[str, Any], clock: Budget
) -> TrainedSparseGP:
    method = params["method"]
    left = None if clock.seconds is None else max(clock.seconds - clock.elapsed, 0.0)
    budget = Budget(seconds=left, evaluations=params["max_evaluations"])
    search = Search(budget, None, method["parametrisation"])
    if method["builder"] == "sparse_gp":
        return train_sparse_likelihood(X, y, start, method["likelihood"], params["ard"], search)
    loss = BandLoss(params["epsilon"])
    problem = Problem(X, y, loss, params["delta"], method["objective"], params["ard"])
    return train_sparse_gp(problem, start, FITC, search)


def _posterior(X: FloatArray, y: FloatArray, method: Mapping[str, Any], fitted: _Fitted) -> Posterior:
    rounded = PAPER_GRID.rounded(fitted.hyperparameters)
    if method["builder"] == "full_gp":
        return FullGPPosterior.fit(rounded, X, y)
    alpha = VFE if method.get("posterior") == "vfe" else FITC
    return SparseGPPosterior.fit(rounded, X, y, fitted.end, alpha)
