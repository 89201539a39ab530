"""Training of GP classifiers of two or several classes: marginal likelihood by L-BFGS-B within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np
from scipy.optimize import Bounds

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.models.classification.approximation import BinaryProblem, GPCFit, NotConvergedError
from gpsuite.models.classification.expectation_propagation import expectation_propagation
from gpsuite.models.classification.laplace import laplace
from gpsuite.models.classification.softmax_laplace import MultiClassFit, MultiClassProblem, softmax_laplace
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.linalg import NonFiniteMatrixError, NotPositiveDefiniteError
from gpsuite.models.search import SCIPY_RULES, Status, StepRules, minimise
from gpsuite.registry import Registry

# The search's box for the variance and each lengthscale. On separable data EP's evidence may rise with the variance
# without limit. Beyond the box it contains no more information.
SEARCH_RANGE = (1e-6, 1e6)
Inference = Callable[[BinaryProblem, Hyperparameters, FloatArray | None], GPCFit]
INFERENCES: Registry[Inference] = Registry("inference")


INFERENCES.register("laplace")(laplace)
INFERENCES.register("ep")(expectation_propagation)
# With a prior the search does not need the evidence to its last digits. The end is approximated in full.
ROUGH_MOMENTS, ROUGH_RULES = 1e-4, StepRules(decrease=1e-5, slope=1e-1)
_ROUGH: dict[str, Inference] = {"ep": partial(expectation_propagation, tolerance=ROUGH_MOMENTS)}
FIRST_ROWS = 300  # rows with which a search with a prior begins, if there are at least twice as many


class StartOutsideBoxError(ValueError):
    """Raised if a search for hyperparameters would start outside of its box. Names the start and the box."""


@dataclass(frozen=True)
class HyperPrior:
    """Log density of a classifier's hyperparameters, up to a constant.

    The marginal likelihood of classes that can be distinguished rises with the variance without limit. A Student-t
    density of the amplitude sqrt(variance) at zero location stops this. Each log lengthscale has a normal density
    around the search's start. It keeps the lengthscales of uninformative inputs near the start.

    Attributes:
        amplitude: scale of the Student-t distribution, in units of the latent function.
        freedom: degrees of freedom. Infinity for the half-normal distribution.
        spread: standard deviation of each log lengthscale. Infinity for none.
    """

    amplitude: float
    freedom: float = math.inf
    spread: float = math.inf

    def log_density(self, theta: FloatArray, start: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density and its gradient [T] in log (variance, lengthscales...) theta [T].

        Args:
            theta: the point.
            start: start of the search, the mean of the log lengthscales, [T].
        """
        ratio, gradient = math.exp(theta[0]) / self.amplitude**2, np.empty_like(theta)
        if math.isinf(self.freedom):
            value = gradient[0] = -0.5 * ratio
        else:
            half = 0.5 * (self.freedom + 1.0)
            value, gradient[0] = -half * math.log1p(ratio / self.freedom), -half * ratio / (self.freedom + ratio)
        off = (theta[1:] - start[1:]) / self.spread
        gradient[1:] = -off / self.spread
        return float(value - 0.5 * off @ off), gradient


# Chosen on 12 public tables and confirmed on 12 others (scripts/study_priors.py): it proves most, with the same
# accuracy.
OWN_DATA = HyperPrior(0.5, spread=1.0)
PRIORS: Registry[HyperPrior | None] = Registry("prior")
PRIORS.register("none")(None)
PRIORS.register("half_normal")(OWN_DATA)


class Approximation(Protocol):
    @property
    def log_marginal_likelihood(self) -> float: ...
    @property
    def gradient(self) -> FloatArray: ...
    @property
    def converged(self) -> bool: ...
    @property
    def state(self) -> FloatArray: ...


FitT = TypeVar("FitT", bound=Approximation)
FitAt = Callable[[Hyperparameters, FloatArray | None], FitT]


@dataclass(frozen=True, eq=False)
class Trained(Generic[FitT]):
    """A classifier at the best hyperparameters of the search.

    Attributes:
        evaluations: evaluations of the log marginal likelihood with its gradient (the paper's epochs).
        status: done (converged), budget (stopped early) or diverged (the search failed, and the best point is kept).
        failed: evaluations without a converged approximation. Their steps were rejected.
    """

    fit: FitT
    hyperparameters: Hyperparameters
    evaluations: int
    status: Status
    reason: str
    failed: int


TrainedGPC = Trained[GPCFit]
TrainedMultiClass = Trained[MultiClassFit]


def train_gpc(
    problem: BinaryProblem,
    inference: str,
    start: Hyperparameters,
    budget: Budget,
    largest_variance: float = SEARCH_RANGE[1],
    prior: HyperPrior | None = None,
) -> TrainedGPC:
    """Maximise the approximate log marginal likelihood over log variance and log lengthscales.

    The start is always evaluated. Each approximation begins from the last converged one. A step to
    hyperparameters without a converged approximation is rejected and shortened.

    Args:
        problem: data, kernel and link. With `spec.ard` a single given lengthscale is used for each input.
        inference: laplace or ep.
        start: start of the search.
        budget: limit. Its evaluations are on all rows.
        largest_variance: upper limit of the variance.
        prior: prior of the hyperparameters. Its log density is added. With many rows the search then begins with the
            first rows and rougher approximations. The result is not rougher.

    Raises:
        UserError: if the inference is unknown.
        ValueError: if the lengthscales do not fit.
        StartOutsideBoxError: if the start is outside the search's box.
        NotConvergedError: if there is no converged approximation at the start.
    """
    infer = INFERENCES.get(inference)
    rough = infer if prior is None else _ROUGH.get(inference, infer)

    def fits_of(rows: int | None) -> tuple[FitAt[GPCFit], FitAt[GPCFit]]:
        part = problem if rows is None else replace(problem, X=problem.X[:rows], y=problem.y[:rows])
        fit = partial(infer, part)
        return fit, fit if rough is infer else partial(rough, part)

    search = _Search(fits_of, inference, problem.spec, problem.X.shape[1], largest_variance, prior)
    first = FIRST_ROWS if len(np.unique(problem.y[:FIRST_ROWS])) == 2 else len(problem.y)
    return search.trained(start, budget, len(problem.y), first)


def train_multiclass_gpc(
    problem: MultiClassProblem,
    start: Hyperparameters,
    budget: Budget,
    largest_variance: float = SEARCH_RANGE[1],
    prior: HyperPrior | None = None,
) -> TrainedMultiClass:
    """Maximise Laplace's log marginal likelihood of a softmax classifier, as `train_gpc` does.

    Args:
        problem: data, classes and kernel. With `spec.ard` a single given lengthscale is used for each input.
        start: start of the search.
        budget: limit. Its evaluations are on all rows.
        largest_variance: upper limit of the variance.
        prior: prior as in `train_gpc`.

    Raises:
        ValueError: if the lengthscales do not fit.
        StartOutsideBoxError: if the start is outside the search's box.
        NotConvergedError: if there is no converged approximation at the start.
    """

    def fits_of(rows: int | None) -> tuple[FitAt[MultiClassFit], FitAt[MultiClassFit]]:
        part = problem if rows is None else replace(problem, X=problem.X[:rows], labels=problem.labels[:rows])
        return (partial(softmax_laplace, part),) * 2

    search = _Search(fits_of, "laplace", problem.spec, problem.X.shape[1], largest_variance, prior)
    several = len(np.unique(problem.labels[:FIRST_ROWS])) == problem.n_classes
    return search.trained(start, budget, len(problem.labels), FIRST_ROWS if several else len(problem.labels))


@dataclass(frozen=True)
class _Search(Generic[FitT]):
    """Trainings of one kind of approximation.

    Attributes:
        fits_of: function of the first rows, or None for all. It returns the approximation and a rougher one for the
            search.
        inference: name of the approximation.
        spec: structure of the model.
        inputs: inputs of the data.
        largest_variance: upper limit of the variance.
        prior: prior of the hyperparameters.
    """

    fits_of: Callable[[int | None], tuple[FitAt[FitT], FitAt[FitT]]]
    inference: str
    spec: ModelSpec
    inputs: int
    largest_variance: float
    prior: HyperPrior | None

    def trained(self, start: Hyperparameters, budget: Budget, rows: int, first_rows: int) -> Trained[FitT]:
        """Search on all rows. With a prior and twice as many rows, start at the result for the first rows."""
        lengths = start.lengthscales
        if self.spec.ard and len(lengths) == 1:
            start = Hyperparameters(start.variance, lengths * self.inputs, start.noise_variance)
        theta = mean = start.to_log()
        if self.prior is not None and rows >= 2 * first_rows:
            few = budget.rest()
            few.evaluations = budget.evaluations
            theta = self._maximised(first_rows, theta, mean, few).hyperparameters.to_log()
        return self._maximised(None, theta, mean, budget)

    def _maximised(self, rows: int | None, start: FloatArray, mean: FloatArray, budget: Budget) -> Trained[FitT]:
        fit_at, rough_fit_at = self.fits_of(rows)
        evidence = _Evidence(rough_fit_at, start[-1], self.prior, mean[:-1])
        theta, rules = start[:-1], SCIPY_RULES if self.prior is None else ROUGH_RULES
        found = minimise(evidence, theta, budget, self._box(theta), rules)
        if evidence.best is None:
            at = Hyperparameters.from_log(start)
            raise NotConvergedError(f"{self.inference} did not converge at the start: {at}")
        fit, hyperparameters = evidence.best
        if rough_fit_at is not fit_at:
            fit = fit_at(hyperparameters, fit.state)
        return Trained(fit, hyperparameters, found.evaluations, found.status, found.reason, evidence.failed)

    def _box(self, theta: FloatArray) -> Bounds:
        lowest, highest = (np.full_like(theta, limit) for limit in np.log(SEARCH_RANGE))
        highest[0] = np.log(self.largest_variance)
        if not ((theta >= lowest) & (theta <= highest)).all():
            (least, most), lengths = SEARCH_RANGE, np.exp(theta[1:])
            fault = f"variance {np.exp(theta[0]):g} and lengthscales {lengths.min():.3g} to {lengths.max():.3g}"
            limits = f"{least:g} to {most:g}, a variance of at most {self.largest_variance:g}"
            raise StartOutsideBoxError(f"training starts at {fault}, outside of {limits}")
        return Bounds(lowest, highest)


class _Evidence(Generic[FitT]):
    """The search's objective: the negative log marginal likelihood. NaN if no approximation converged."""

    def __init__(self, fit_at: FitAt[FitT], log_noise: float, prior: HyperPrior | None, mean: FloatArray) -> None:
        self._fit_at, self._log_noise, self._prior, self._mean = fit_at, log_noise, prior, mean
        self._state: FloatArray | None = None
        self._best_value = -math.inf
        self.best: tuple[FitT, Hyperparameters] | None = None
        self.failed = 0

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        fitted = self._converged(theta)
        if fitted is None:
            self.failed += 1
            return float("nan"), np.full_like(theta, np.nan)
        fit = fitted[0]
        self._state = fit.state
        value, gradient = fit.log_marginal_likelihood, fit.gradient
        if self._prior is not None:
            density, slope = self._prior.log_density(theta, self._mean)
            value, gradient = value + density, gradient + slope
        if value > self._best_value:
            self.best, self._best_value = fitted, value
        return -value, -gradient

    def _converged(self, theta: FloatArray) -> tuple[FitT, Hyperparameters] | None:
        hyperparameters = Hyperparameters.from_log(np.append(theta, self._log_noise))
        for state in (self._state, None) if self._state is not None else (None,):
            try:
                fit = self._fit_at(hyperparameters, state)
            except (NonFiniteMatrixError, NotPositiveDefiniteError):
                continue
            if fit.converged:
                return fit, hyperparameters
        return None
