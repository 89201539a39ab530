"""A bound to minimise, and maps from search variables u to the logarithms of positive hyperparameters.

Equation: Reeb et al. 2018, Sec. 3
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from scipy.optimize import Bounds
from scipy.special import expit

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, BoundObjective, Terms
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import checked_data
from gpsuite.models.config import Hyperparameters
from gpsuite.models.search import Minimum, Objective, Status, StepRules, minimise
from gpsuite.registry import Registry

# Smallest value that the search may give a hyperparameter without a box (the noise variance).
_FLOOR = 1e-6
PARAMETRISATIONS: Registry[Parametrisation] = Registry("parametrisation")
# Tolerances of the authors' code. If a matrix cannot be factorised, the line search goes back.
_RULES = StepRules(decrease=1e-8, slope=1e-8, undefined="wall")


class Parametrisation(Protocol):
    """A smooth increasing map from u to the natural logarithm of a positive value."""

    def to_log(self, u: FloatArray) -> tuple[FloatArray, FloatArray]: ...

    def from_log(self, theta: FloatArray) -> FloatArray: ...

    def lowest(self) -> float:
        """Return the lower limit of u for a value without a box, -inf if the map itself keeps the value positive."""


@dataclass(frozen=True)
class Softplus:
    """value = ln(1 + exp(u)) + 1e-6, as in the authors' code (GPflow's positive transform)."""

    def to_log(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        value = np.logaddexp(0.0, u) + _FLOOR
        return np.log(value), np.asarray(expit(u) / value, dtype=np.float64)

    def from_log(self, theta: FloatArray) -> FloatArray:
        value = np.exp(theta) - _FLOOR
        return np.asarray(value + np.log(-np.expm1(-value)), dtype=np.float64)

    def lowest(self) -> float:
        return -math.inf


@dataclass(frozen=True)
class Log:
    """value = exp(u)."""

    def to_log(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        return u, np.ones_like(u)

    def from_log(self, theta: FloatArray) -> FloatArray:
        return theta

    def lowest(self) -> float:
        return math.log(_FLOOR)


PARAMETRISATIONS.register("softplus")(Softplus())
PARAMETRISATIONS.register("log")(Log())


@dataclass(frozen=True, eq=False)
class RiskProblem:
    """A bound to minimise: its data, loss and confidence.

    Attributes:
        ard: whether there is one lengthscale per input, not a single one.
        bound: the bound as a function of Gibbs risk and KL. It includes ln|Theta| for T kernel hyperparameters.

    Raises:
        ValueError: if shapes disagree, values are not finite or delta is outside (0, 1).
        UserError: if the objective is unknown.
    """

    X: FloatArray
    y: FloatArray
    loss: Loss
    delta: float
    objective: str = "kl"
    ard: bool = True
    bound: BoundObjective = field(init=False, repr=False)

    def __post_init__(self) -> None:
        X, y = checked_data(self.X, self.y)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        terms = Terms(len(y), 1 + self.n_lengthscales, self.delta)
        object.__setattr__(self, "bound", BoundObjective(self.objective, terms))

    @property
    def n_lengthscales(self) -> int:
        """D with ARD, otherwise 1."""
        return self.X.shape[1] if self.ard else 1


@dataclass(frozen=True)
class Search:
    """Start, variables and limits of a search over hyperparameters.

    Attributes:
        budget: limits on seconds and evaluations. The paper allows 1000 evaluations.
        start: first hyperparameters. None means variance = lengthscales = noise variance = 1 (the paper's).
        parametrisation: map of the hyperparameters, `softplus` or `log` (`PARAMETRISATIONS`). It decides which local
            optimum is found. From the paper's start, `softplus` (the authors') repeats the single-start runs of their
            code on Boston. These include two that collapse to KL near 0 (sqrt, epsilon = 0.2). `log` does not collapse
            there and agrees elsewhere. With ARD it takes a third of the evaluations.
    """

    budget: Budget
    start: Hyperparameters | None = None
    parametrisation: str = "softplus"

    @property
    def variables(self) -> Parametrisation:
        return PARAMETRISATIONS.get(self.parametrisation)

    def first(self, n_lengthscales: int) -> Hyperparameters:
        first = self.start or Hyperparameters(1.0, (1.0,) * n_lengthscales, 1.0)
        if len(first.lengthscales) != n_lengthscales:
            raise ValueError(f"start has {len(first.lengthscales)} lengthscales, expected {n_lengthscales}")
        return first

    def limits(self, n_kernel: int) -> list[tuple[float, float]]:
        """Return the limits of the variables: the grid's box for the kernel, positive for the noise variance."""
        edge = float(PAPER_GRID.half_width)
        low, high = (float(v) for v in self.variables.from_log(np.array([-edge, edge])))
        return [(low, high)] * n_kernel + [(self.variables.lowest(), math.inf)]

    def run(self, objective: Objective, begin: FloatArray, limits: Sequence[tuple[float, float]]) -> Minimum:
        """Minimise with L-BFGS-B until its tolerance 1e-8 or the budget is reached.

        A search with a stalled line search counts as done: a bound holds at every point. Without a finite value at the
        start it is diverged, with infinite loss.
        """
        lower, upper = (np.array(side, dtype=np.float64) for side in zip(*limits, strict=True))
        found = minimise(objective, np.clip(begin, lower, upper), self.budget, Bounds(lower, upper), _RULES)
        notes = []
        if found.failures:
            notes.append(f"{len(found.failures)} evaluations failed: {found.failures[0]}")
        if math.isinf(found.loss):
            return replace(found, reason=notes[0])
        if found.status == "budget":
            notes.append(found.reason)
        if found.stalled:
            notes.append(f"the line search ended early ({found.message.strip(': ')})")
        status: Status = "budget" if found.status == "budget" else "done"
        return replace(found, status=status, reason="; ".join(notes))


@dataclass(frozen=True)
class TrainedGP:
    """Hyperparameters found by minimising a bound, and a report of the search.

    Attributes:
        rounded: hyperparameters with variance and lengthscales on the grid. A certificate holds only for these.
        objective_value: the bound at `hyperparameters`. Infinite if diverged.
    """

    hyperparameters: Hyperparameters
    rounded: Hyperparameters
    objective_value: float
    evaluations: int
    iterations: int
    status: Status
    reason: str

    @classmethod
    def at(cls, theta: FloatArray, found: Minimum) -> TrainedGP:
        h = Hyperparameters.from_log(theta)
        return cls(
            h, PAPER_GRID.rounded(h), found.loss, found.evaluations, found.iterations, found.status, found.reason
        )
