"""Training of GP classifiers of two or several classes: marginal likelihood by L-BFGS-B within some evaluations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from gpsuite.models.search import Status, minimise
from gpsuite.registry import Registry

# The search's box for the variance and each lengthscale. On separable data EP's evidence may rise with the
# variance without end; beyond the box it tells nothing more.
SEARCH_RANGE = (1e-6, 1e6)
Inference = Callable[[BinaryProblem, Hyperparameters, FloatArray | None], GPCFit]
INFERENCES: Registry[Inference] = Registry("inference")


INFERENCES.register("laplace")(laplace)
INFERENCES.register("ep")(expectation_propagation)


class StartOutsideBoxError(ValueError):
    """A search for hyperparameters that would start outside of its box; says where, and what the box is."""


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
    """A classifier at the best hyperparameters met.

    Attributes:
        evaluations: evaluations of the log marginal likelihood with its gradient (the paper's epochs).
        status: done (converged), budget (stopped early) or diverged (the search failed; best point kept).
        failed: evaluations without a converged approximation; their steps were rejected.
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
) -> TrainedGPC:
    """Maximise the approximate log marginal likelihood over log variance and log lengthscales.

    The start is always evaluated. Each approximation begins from the last converged one. A step to
    hyperparameters without a converged approximation is rejected and shortened.

    Args:
        problem: data, kernel and link; with `spec.ard` a single given lengthscale is used for each input.

    Raises:
        UserError: if the inference is unknown.
        ValueError: if the lengthscales do not fit.
        StartOutsideBoxError: if the start is outside the search's box.
        NotConvergedError: if there is no converged approximation at the start.
    """
    infer = INFERENCES.get(inference)

    def fit_at(hyperparameters: Hyperparameters, state: FloatArray | None) -> GPCFit:
        return infer(problem, hyperparameters, state)

    inputs = problem.X.shape[1]
    return _maximised(fit_at, inference, problem.spec, inputs, start, budget, largest_variance)


def train_multiclass_gpc(
    problem: MultiClassProblem, start: Hyperparameters, budget: Budget, largest_variance: float = SEARCH_RANGE[1]
) -> TrainedMultiClass:
    """Maximise Laplace's log marginal likelihood of a softmax classifier, as `train_gpc` does.

    Args:
        problem: data, classes and kernel; with `spec.ard` a single given lengthscale is used for each input.

    Raises:
        ValueError: if the lengthscales do not fit.
        StartOutsideBoxError: if the start is outside the search's box.
        NotConvergedError: if there is no converged approximation at the start.
    """

    def fit_at(hyperparameters: Hyperparameters, state: FloatArray | None) -> MultiClassFit:
        return softmax_laplace(problem, hyperparameters, state)

    inputs = problem.X.shape[1]
    return _maximised(fit_at, "laplace", problem.spec, inputs, start, budget, largest_variance)


def _maximised(
    fit_at: FitAt[FitT],
    inference: str,
    spec: ModelSpec,
    inputs: int,
    start: Hyperparameters,
    budget: Budget,
    largest_variance: float,
) -> Trained[FitT]:
    lengths = start.lengthscales
    if spec.ard and len(lengths) == 1:
        start = Hyperparameters(start.variance, lengths * inputs, start.noise_variance)
    evidence = _Evidence(fit_at, start.noise_variance)
    theta = start.to_log()[:-1]
    lowest, highest = (np.full_like(theta, limit) for limit in np.log(SEARCH_RANGE))
    highest[0] = np.log(largest_variance)
    if not ((theta >= lowest) & (theta <= highest)).all():
        (least, most), ends = SEARCH_RANGE, (min(start.lengthscales), max(start.lengthscales))
        fault = f"variance {start.variance:g} and lengthscales {ends[0]:.3g} to {ends[1]:.3g}"
        limits = f"{least:g} to {most:g}, a variance of at most {largest_variance:g}"
        raise StartOutsideBoxError(f"training starts at {fault}, outside of {limits}")
    found = minimise(evidence, theta, budget, Bounds(lowest, highest))
    if evidence.best is None:
        raise NotConvergedError(f"{inference} did not converge at the start: {start}")
    fit, hyperparameters = evidence.best
    return Trained(fit, hyperparameters, found.evaluations, found.status, found.reason, evidence.failed)


class _Evidence(Generic[FitT]):
    """The negative log marginal likelihood as the search sees it; NaN where no approximation converged."""

    def __init__(self, fit_at: FitAt[FitT], noise_variance: float) -> None:
        self._fit_at = fit_at
        self._log_noise = np.log(noise_variance)
        self._state: FloatArray | None = None
        self.best: tuple[FitT, Hyperparameters] | None = None
        self.failed = 0

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        fitted = self._converged(theta)
        if fitted is None:
            self.failed += 1
            return float("nan"), np.full_like(theta, np.nan)
        fit = fitted[0]
        self._state = fit.state
        if self.best is None or fit.log_marginal_likelihood > self.best[0].log_marginal_likelihood:
            self.best = fitted
        return -fit.log_marginal_likelihood, -fit.gradient

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
