"""Common part of the family's trainings: rows, options and limits in, hyperparameters out, several starts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, MethodOptions
from gpsuite.methods.pac_bayes.cost import Cost
from gpsuite.methods.pac_bayes.problem import TrainedGP
from gpsuite.methods.pac_bayes.sparse.free_form import WhitenedGaussian
from gpsuite.methods.pac_bayes.sparse.training import TrainedSparseGP
from gpsuite.models.config import Hyperparameters
from gpsuite.models.regression.inducing import different_rows, limited_inducing
from gpsuite.seeds import stream

Options_co = TypeVar("Options_co", bound=MethodOptions, covariant=True)
Observer = Callable[[Budget], None]


# Of the seconds: what k-means may take.
KMEANS_SHARE = 0.15


# Further starts are drawn log-uniformly, in standardised units: variance, lengthscales, noise variance.
_START_RANGES = ((0.3, 3.0), (0.3, 10.0), (0.1, 3.0))


@dataclass(frozen=True)
class Trained:
    """Hyperparameters as trained, before rounding, inducing inputs of a sparse model, and how training ended.

    Attributes:
        objective: the smallest value of what was minimised.
        Z: inducing inputs [M, D]. None for a full GP.
        jitter: multiple of sigma_f^2 that K_ZZ needed, 0 if none.
        objectives: the smallest values from every start.
        gaussian: a free-form posterior of the whitened inducing variables. None for the others.
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
class Training(Generic[Options_co]):
    """Rows, options and limits of a training.

    Attributes:
        X: training inputs [N, D].
        y: training targets [N].
        options: the method's.
        ard: one lengthscale per input, or a single one.
        delta: allowed probability that the bound fails.
        max_evaluations: limit on objective evaluations per start.
        seed: of the inducing inputs and of further starts.
        seconds: wall-clock limit of the whole training, all starts together, and of the certificate. None for none.
        began: when its clock began, by `time.monotonic`.
        observer: told about every evaluation.
        cost: of one evaluation, and of the certificate that follows.
    """

    X: FloatArray
    y: FloatArray
    options: Options_co
    ard: bool
    delta: float
    max_evaluations: int
    seed: int
    seconds: float | None = None
    observer: Observer | None = None
    cost: Cost | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def n_lengthscales(self) -> int:
        """Number of lengthscales that are trained."""
        return self.X.shape[1] if self.ard else 1

    def budget(self, left: float | None, number: int = 0, starts: int = 1) -> Budget:
        """Return the limits of one start's training, which may take the seconds that are left."""
        after = 0.0 if self.cost is None else self.cost.after
        return Budget(
            left,
            self.max_evaluations,
            run=number + 1,
            runs=starts,
            observer=self.observer,
            after=after,
            stated=self.seconds,
        )

    @property
    def clock(self) -> Budget:
        """The seconds of the whole training, which run since it began."""
        return Budget(self.seconds, started=self.began)

    def fits(self, clock: Budget) -> bool:
        """Return whether another training of one evaluation, and the certificate, end within the limit."""
        return self.cost is None or clock.seconds is None or clock.elapsed + self.cost.least <= clock.seconds


def first_inducing(work: Training[MethodOptions], inducing: int, number: int, clock: Budget) -> tuple[FloatArray, bool]:
    """Return k-means centres, as many as M or the different rows, and whether the seconds left cut them short.

    Args:
        work: the training.
        inducing: M.
        number: of the start. Each has its own clustering.
        clock: of the whole training.
    """
    names = ("inducing",) if number == 0 else ("inducing", number)
    left = clock.left
    if left is not None and work.cost is not None:
        left = min(KMEANS_SHARE * left, left - work.cost.least)
    return limited_inducing(work.X, min(inducing, len(different_rows(work.X))), stream(work.seed, *names), left)


def best_start(
    train: Callable[[Hyperparameters | None, int, Budget], Trained], work: Training[MethodOptions], starts: int
) -> Trained:
    """Train from the published start, then from drawn ones. Return the best with every start's objective.

    All starts share the seconds of the training.

    Args:
        train: start (None: the published one), its number, the clock of the whole training -> what it gives.
        work: the training.
        starts: how many.
    """
    clock = work.clock
    runs = [train(None, 0, clock)]
    for number in range(1, starts):
        if clock.exhausted or not work.fits(clock):
            break
        runs.append(train(_drawn_start(work, number), number, clock))
    cut = len(runs) < starts
    usable = [run for run in runs if run.status != DIVERGED]
    best = min(usable or runs, key=lambda run: run.objective)
    whole = replace(
        best, evaluations=sum(run.evaluations for run in runs), objectives=tuple(run.objective for run in runs)
    )
    if cut and best.status != DIVERGED:
        reason = clock.reason or "the seconds left have no room for another start"
        return replace(whole, status=BUDGET, reason=reason)
    return whole


def _drawn_start(work: Training[MethodOptions], number: int) -> Hyperparameters:
    rng = stream(work.seed, "start", number)
    sizes = (1, work.n_lengthscales, 1)
    variance, lengthscales, noise = (
        np.exp(rng.uniform(np.log(low), np.log(high), size))
        for (low, high), size in zip(_START_RANGES, sizes, strict=True)
    )
    return Hyperparameters(float(variance[0]), tuple(float(v) for v in lengthscales), float(noise[0]))


def trained(fit: TrainedGP) -> Trained:
    """Return a search's outcome."""
    return Trained(fit.hyperparameters, fit.status, fit.reason, fit.evaluations, fit.objective_value)


def trained_sparse(fit: TrainedSparseGP) -> Trained:
    """Return the outcome of a search over hyperparameters and inducing inputs."""
    return replace(trained(fit.gp), Z=fit.Z, jitter=fit.jitter)


def cut_short(found: Trained, cut: bool) -> Trained:
    """Return the outcome. `cut` says that the budget changed the inducing inputs that it started from."""
    if cut and found.status == DONE:
        return replace(found, status=BUDGET, reason="the seconds cut k-means short")
    return found
