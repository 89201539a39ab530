"""One hyperparameter vector instead of a posterior: maximum a posteriori or maximum likelihood by L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.models.multi_output.observations import HyperparameterModel, Likelihood
from gpsuite.models.sampling.posterior import (
    HyperPosterior,
    NoFiniteStartError,
    Target,
    finite_prior_draws,
)
from gpsuite.models.search import Objective, minimise


@dataclass(frozen=True)
class OptimumSettings:
    """What is maximised, and from how many starts.

    Attributes:
        kind: map (log prior + log |Jacobian| + log marginal likelihood: the mode of the density of u) or ml (log
            marginal likelihood alone; can run to infinity along directions the data leave open).
        starts: draws from the prior, beside the given ones.
        evaluations: limit for one start.

    Raises:
        ValueError: if the kind is unknown or a number is out of range.
    """

    kind: Literal["map", "ml"] = "map"
    starts: int = 5
    evaluations: int = 500

    def __post_init__(self) -> None:
        if self.kind not in ("map", "ml") or self.starts < 0 or self.evaluations < 1:
            raise ValueError(f"{self}: kind must be map or ml, starts >= 0, evaluations >= 1")


def find_optimum(
    model: HyperparameterModel,
    likelihood: Likelihood,
    rng: np.random.Generator,
    settings: OptimumSettings,
    given: FloatArray | None = None,
) -> HyperPosterior:
    """Return the best optimum over all starts as a posterior of one vector.

    Diagnostics: lml and log_density (the maximised value) at the optimum, gradients (evaluations over all starts),
    starts, and converged (share of the starts whose search converged).

    Args:
        model: the prior, its hyperparameters unconstrained.
        likelihood: log marginal likelihood of the observations.
        rng: draws the starts.
        settings: what and how.
        given: further starts [n, d], such as the optimum without the newest observation.

    Raises:
        ValueError: if there is no start.
        NoFiniteStartError: if no start has a finite value.
    """
    starts = np.empty((0, model.n_parameters)) if given is None else given
    if settings.starts:
        drawn = finite_prior_draws(Target(model, likelihood), rng, settings.starts)
        starts = np.concatenate([starts, drawn])
    if not len(starts):
        raise ValueError("settings.starts is 0 and no start is given")
    negative = _negative(model, likelihood, settings.kind)
    searches = [minimise(negative, start, Budget(evaluations=settings.evaluations)) for start in starts]
    best = min(searches, key=lambda each: each.loss)
    if not np.isfinite(best.loss):
        raise NoFiniteStartError("the value is not finite at any start")
    u = best.point[None, :]
    diagnostics = {
        "lml": float(likelihood.value(u)[0]),
        "log_density": -best.loss,
        "gradients": float(sum(each.evaluations for each in searches)),
        "starts": float(len(starts)),
        "converged": float(np.mean([each.status == "done" for each in searches])),
    }
    return HyperPosterior.equal(u, diagnostics)


def _negative(model: HyperparameterModel, likelihood: Likelihood, kind: Literal["map", "ml"]) -> Objective:
    """Return the loss of one vector [d] and its gradient [d]."""
    density = Target(model, likelihood) if kind == "map" else likelihood.value_and_gradient

    def loss(u: FloatArray) -> tuple[float, FloatArray]:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the search rejects such points
            value, gradient = density(u[None, :])
        return -float(value[0]), -gradient[0]

    return loss
