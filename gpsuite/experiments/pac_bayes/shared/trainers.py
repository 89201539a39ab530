"""How each of the family's methods is trained on a split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE
from gpsuite.methods.pac_bayes.cost import Cost
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.problem import Problem, Search, TrainedGP
from gpsuite.methods.pac_bayes.sparse.free_form import WhitenedGaussian
from gpsuite.methods.pac_bayes.sparse.free_form_training import train_free_form
from gpsuite.methods.pac_bayes.sparse.training import (
    TrainedSparseGP,
    train_sparse_gp,
    train_sparse_likelihood,
)
from gpsuite.methods.pac_bayes.training import train_full_gp
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression.inducing import limited_inducing
from gpsuite.seeds import stream

FloatArray = npt.NDArray[np.float64]


Params = Mapping[str, Any]


Observer = Callable[[Budget], None]


FITC, VFE = 1.0, 0.0  # alpha of the sparse posteriors


# Of the seconds: what k-means may take, and what a free-form posterior's first training may.
KMEANS_SHARE, FIRST_SHARE = 0.15, 0.6


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


@dataclass(frozen=True)
class Training:
    """What to train on, how, and within which limits.

    Attributes:
        X: training inputs [N, D].
        y: training targets [N].
        params: the task's science parameters.
        seconds: wall-clock limit of the whole training, all starts together, and of the certificate; None for none.
        observer: told about every evaluation.
        cost: of one evaluation, and of the certificate that follows.
    """

    X: FloatArray
    y: FloatArray
    params: Params
    seconds: float | None = None
    observer: Observer | None = None
    cost: Cost | None = None

    @property
    def method(self) -> Mapping[str, Any]:
        """The method's own options."""
        return cast(Mapping[str, Any], self.params["method"])

    def budget(self, left: float | None, number: int = 0) -> Budget:
        """Return the limits of one start's training, which may take the seconds that are left."""
        starts = self.method.get("starts", 1)
        evaluations, after = self.params["max_evaluations"], 0.0 if self.cost is None else self.cost.after
        return Budget(left, evaluations, run=number + 1, runs=starts, observer=self.observer, after=after)

    def search(self, start: Hyperparameters | None, left: float | None, number: int = 0) -> Search:
        """Return the search from one start."""
        return Search(self.budget(left, number), start, self.method["parametrisation"])

    def problem(self, loss: Loss) -> Problem:
        """Return the bound that is minimised."""
        params = self.params
        return Problem(self.X, self.y, loss, params["delta"], self.method["objective"], params["ard"])

    def fits(self, clock: Budget) -> bool:
        """Return whether another training of one evaluation, and the certificate, end within the limit."""
        return self.cost is None or clock.seconds is None or clock.elapsed + self.cost.least <= clock.seconds


def minimise_bound(work: Training, loss: Loss) -> Trained:
    """Train a full GP on its bound, from one start or more."""

    def train(start: Hyperparameters | None, number: int, clock: Budget) -> Trained:
        return _trained(train_full_gp(work.problem(loss), work.search(start, _left(clock), number)))

    return _best_start(train, work)


def minimise_sparse_bound(work: Training, loss: Loss) -> Trained:
    """Train a sparse GP in the FITC form on its bound, from one start or more."""

    def train(start: Hyperparameters | None, number: int, clock: Budget) -> Trained:
        Z, cut = _first_inducing(work, number, clock)
        fit = train_sparse_gp(work.problem(loss), Z, FITC, work.search(start, _left(clock), number))
        return _trained_sparse(fit, cut)

    return _best_start(train, work)


def minimise_free_form(work: Training, loss: Loss) -> Trained:
    """Train a sparse GP in the FITC form on its bound, then free its posterior: the bound can only fall."""
    clock = Budget(work.seconds)
    share = None if work.seconds is None else FIRST_SHARE * work.seconds
    first = minimise_sparse_bound(replace(work, seconds=share), loss)
    if first.status == DIVERGED or first.Z is None:
        return first
    if not work.fits(clock):
        return replace(first, status=BUDGET, reason="the seconds left have no room for a free posterior")
    search = work.search(first.hyperparameters, _left(clock))
    fit = train_free_form(work.problem(loss), first.Z, FITC, search)
    freed = _trained(fit.gp)
    evaluations = first.evaluations + freed.evaluations
    whole = replace(freed, evaluations=evaluations, Z=fit.Z, jitter=fit.jitter, gaussian=fit.gaussian)
    limited = first.status == BUDGET and work.seconds is not None and freed.status != DIVERGED
    return replace(whole, status=BUDGET, reason=first.reason) if limited else whole


def maximise_sparse_likelihood(work: Training) -> Trained:
    """Train a sparse GP by VFE's lower bound or FITC's marginal likelihood, from the published start."""
    clock = Budget(work.seconds)
    Z, cut = _first_inducing(work, 0, clock)
    form, search = work.method["likelihood"], work.search(None, _left(clock))
    fit = train_sparse_likelihood(work.X, work.y, Z, form, work.params["ard"], search)
    return _trained_sparse(fit, cut)


def maximise_full_likelihood(work: Training) -> Trained:
    """Train GPflow's full GP by its marginal likelihood."""
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.models.regression.exact import build_gpr
    from gpsuite.models.regression.parameters import hyperparameters_of
    from gpsuite.models.regression.training import maximise_likelihood

    ard = work.params["ard"]
    start = Hyperparameters(1.0, (1.0,) * (work.X.shape[1] if ard else 1), 1.0)
    model = build_gpr(work.X, work.y, ModelSpec(ard=ard), start)
    report = maximise_likelihood(model, work.budget(work.seconds))
    found = hyperparameters_of(model)
    return Trained(found, report.status, report.reason, report.evaluations, report.loss)


def _left(clock: Budget) -> float | None:
    """Return the seconds that a clock has left; None without a limit."""
    return None if clock.seconds is None else clock.seconds - clock.elapsed


def _first_inducing(work: Training, number: int, clock: Budget) -> tuple[FloatArray, bool]:
    """Return k-means centres, as many as M or the different rows, and whether the seconds left cut them short."""
    inducing = min(work.method["inducing"], len(np.unique(work.X, axis=0)))
    names = ("inducing",) if number == 0 else ("inducing", number)
    left = _left(clock)
    if left is not None and work.cost is not None:
        left = min(KMEANS_SHARE * left, left - work.cost.least)
    return limited_inducing(work.X, inducing, stream(work.params["split_seed"], *names), left)


def _best_start(train: Callable[[Hyperparameters | None, int, Budget], Trained], work: Training) -> Trained:
    """Train from the published start, then from drawn ones; return the best with every start's objective.

    All starts share the seconds of the training.
    """
    clock, starts = Budget(work.seconds), work.method.get("starts", 1)
    n_lengthscales = work.X.shape[1] if work.params["ard"] else 1
    runs = [train(None, 0, clock)]
    for number in range(1, starts):
        if clock.exhausted or not work.fits(clock):
            break
        runs.append(train(_drawn_start(n_lengthscales, work.params, number), number, clock))
    cut = len(runs) < starts
    usable = [run for run in runs if run.status != DIVERGED]
    best = min(usable or runs, key=lambda run: run.objective)
    whole = replace(
        best,
        evaluations=sum(run.evaluations for run in runs),
        objectives=tuple(run.objective for run in runs),
    )
    if cut and best.status != DIVERGED:
        reason = clock.reason or "the seconds left have no room for another start"
        return replace(whole, status=BUDGET, reason=reason)
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


def _trained_sparse(fit: TrainedSparseGP, cut: bool) -> Trained:
    """Return the outcome; `cut` says that the budget changed the inducing inputs that it started from."""
    found = replace(_trained(fit.gp), Z=fit.Z, jitter=fit.jitter)
    if cut and found.status == DONE:
        return replace(found, status=BUDGET, reason="the seconds cut k-means short")
    return found
