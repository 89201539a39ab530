"""Training for the certificate: among equally accurate lengthscales, choose those that prove most rows.

The marginal likelihood ignores the box that an input may move in. Longer lengthscales give a latent mean of smaller
slope, often with the same accuracy. Cross-validation inside the training rows compares them. Every candidate predicts
and searches rows that it was not approximated on. No test row is used.

Equation: none, a choice by cross-validation
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.point_search import PointSearch, Posterior
from gpsuite.methods.robustness.search.regions import box
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.config import Hyperparameters

STRETCHES = (1.0, 1.5, 2.0, 3.0)  # factors of all lengthscales
FOLDS = 4
SEARCHED = 40  # searched rows per candidate
BOXES = 50  # boxes per search
ACCURACY_LOST = 0.01  # accuracy that a candidate may lose against the most accurate one
Fit = Callable[[IntArray, Hyperparameters], Posterior | None]
"""Of training rows and hyperparameters: the approximate posterior, or None if it does not converge."""


@dataclass(frozen=True)
class Candidate:
    """Cross-validation of one choice of hyperparameters.

    Attributes:
        hyperparameters: the candidate's hyperparameters.
        accuracy: share of the training rows that are predicted rightly by a posterior without them.
        proved: share of the searched rows that are predicted rightly and keep their class in the whole box, by proof.
    """

    hyperparameters: Hyperparameters
    accuracy: float
    proved: float


def candidates_for(
    fit: Fit,
    X: FloatArray,
    classes: IntArray,
    at: Hyperparameters,
    radius: float,
    moves: IntArray,
    rng: np.random.Generator,
    budget: Budget,
) -> list[Candidate]:
    """Return the `FOLDS`-fold cross-validation of each of `STRETCHES` that is accurate enough to be chosen.

    Args:
        fit: function that approximates the posterior.
        X: training inputs [N, D].
        classes: their classes, from 0, [N].
        at: hyperparameters that training found, the first candidate.
        radius: half the width of the box, in units of X.
        moves: inputs that move.
        rng: generator that draws the folds and the searched rows.
        budget: seconds. The approximations have half of them. The searches share the remaining time.
    """
    order = rng.permutation(len(X))
    folds, fits = [order[start::FOLDS] for start in range(FOLDS)], budget.part(2)
    models: list[tuple[Hyperparameters, list[Posterior], list[BoolArray]]] = []
    for stretch in STRETCHES:
        hyperparameters = replace(at, lengthscales=tuple(stretch * length for length in at.lengthscales))
        posteriors = [fit(np.setdiff1d(order, fold), hyperparameters) for fold in folds if not fits.exhausted]
        kept = [posterior for posterior in posteriors if posterior is not None]
        if len(kept) == FOLDS:
            right = [_predicted(model, X[fold]) == classes[fold] for model, fold in zip(kept, folds, strict=True)]
            models.append((hyperparameters, kept, right))
    accuracies = [float(np.concatenate(right).mean()) for _, _, right in models]
    found: list[Candidate] = []
    for place, ((hyperparameters, kept, right), accuracy) in enumerate(zip(models, accuracies, strict=True)):
        if accuracy >= max(accuracies) - ACCURACY_LOST:
            share = budget.part(len(models) - place)
            proved = [
                hit[row] and _stays(model, X[fold[row]], radius, moves, share)
                for model, fold, hit in zip(kept, folds, right, strict=True)
                for row in range(min(SEARCHED // FOLDS, len(fold)))
            ]
            found.append(Candidate(hyperparameters, accuracy, float(np.mean(proved))))
    return found


def _predicted(posterior: Posterior, X: FloatArray) -> IntArray:
    if isinstance(posterior, GPCPosterior):
        return np.asarray(posterior.probability(X) > 0.5, dtype=np.int64)
    return np.asarray(np.argmax(posterior.probabilities(X), axis=1))


def _stays(posterior: Posterior, x: FloatArray, radius: float, moves: IntArray, budget: Budget) -> bool:
    if budget.exhausted:
        return False
    radii = np.zeros(len(x))
    radii[moves] = radius
    return PointSearch(posterior, x, moves).decide(box(x, radii), budget.rest(BOXES))[0].status == "safe"
