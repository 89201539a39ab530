"""Training for the certificate: what cross-validation says about lengthscales, and which of them may be chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.certified_training import ACCURACY_LOST, BOXES, FOLDS, STRETCHES, candidates_for
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.search.regions import box
from gpsuite.models.classification.approximation import BinaryProblem
from gpsuite.models.classification.laplace import laplace
from gpsuite.models.classification.links import PROBIT
from gpsuite.models.config import Hyperparameters, ModelSpec

AT, RADIUS = Hyperparameters(4.0, (0.6,)), 0.1


class Fits:
    """Laplace's approximation of training rows, and which rows were asked for."""

    def __init__(self, X: FloatArray, classes: IntArray, refused: float = np.inf) -> None:
        self.X, self.classes, self.refused = X, classes, refused
        self.asked: list[IntArray] = []

    def __call__(self, rows: IntArray, at: Hyperparameters) -> Any:
        self.asked.append(rows)
        if at.lengthscales[0] >= self.refused:
            return None
        y = np.where(self.classes[rows] == 1, 1.0, -1.0)
        return laplace(BinaryProblem(self.X[rows], y, ModelSpec(), PROBIT), at, None).require_converged()


def waves(rows: int = 120) -> tuple[FloatArray, IntArray]:
    """Return inputs whose class changes too often for long lengthscales."""
    X = np.random.default_rng(5).uniform(-3.0, 3.0, (rows, 1))
    return X, np.asarray(np.sin(4.0 * X[:, 0]) > 0.0, dtype=np.int64)


def clouds(rows: int = 120) -> tuple[FloatArray, IntArray]:
    """Return two overlapping clouds, for which every lengthscale is about as accurate."""
    rng = np.random.default_rng(6)
    classes = np.arange(rows) % 2
    return rng.normal(size=(rows, 2)) + 2.4 * classes[:, None], classes


def found(fits: Fits, budget: Budget | None = None) -> Any:
    moves, rng = np.arange(fits.X.shape[1]), np.random.default_rng(7)
    return candidates_for(fits, fits.X, fits.classes, AT, RADIUS, moves, rng, budget or Budget())


def test_every_row_is_judged_by_a_model_that_was_not_trained_on_it() -> None:
    fits = Fits(*clouds())
    found(fits)
    assert len(fits.asked) == FOLDS * len(STRETCHES)
    left_out = [np.setdiff1d(np.arange(120), rows) for rows in fits.asked[:FOLDS]]
    np.testing.assert_array_equal(np.sort(np.concatenate(left_out)), np.arange(120))


def test_accuracy_and_proved_share_are_those_of_a_plain_cross_validation() -> None:
    fits = Fits(*clouds(40))  # few rows: every row is searched
    first = found(fits)[0]
    right, proved = [], []
    for rows in fits.asked[:FOLDS]:
        model = Fits(fits.X, fits.classes)(rows, first.hyperparameters)
        for row in np.setdiff1d(np.arange(40), rows):
            hit = bool((model.probability(fits.X[row][None])[0] > 0.5) == fits.classes[row])
            search = PointSearch(model, fits.X[row], np.arange(2))
            status = search.decide(box(fits.X[row], RADIUS), Budget(boxes=BOXES))[0].status
            right.append(hit)
            proved.append(hit and status == "safe")
    assert (first.accuracy, first.proved) == (np.mean(right), np.mean(proved))
    assert 0.0 < first.proved < first.accuracy


def test_longer_lengthscales_prove_more_where_they_are_as_accurate() -> None:
    tried = found(Fits(*clouds()))
    assert len(tried) > 1 and max(each.proved for each in tried[1:]) > tried[0].proved


def test_a_lengthscale_that_costs_accuracy_is_no_candidate() -> None:
    tried = found(Fits(*waves()))
    assert max(each.hyperparameters.lengthscales[0] for each in tried) < STRETCHES[-1] * AT.lengthscales[0]
    assert min(each.accuracy for each in tried) >= max(each.accuracy for each in tried) - ACCURACY_LOST


def test_what_does_not_converge_and_what_has_no_time_is_left_out() -> None:
    refused = STRETCHES[1] * AT.lengthscales[0]
    assert [each.hyperparameters for each in found(Fits(*clouds(), refused=refused))] == [AT]
    assert found(Fits(*clouds()), Budget(seconds=0.0)) == []


def test_only_the_inputs_that_move_are_searched() -> None:
    X, classes = clouds()
    X[:, 1] = np.random.default_rng(8).normal(size=len(X))  # says nothing
    fits = Fits(X, classes)

    def proved(radius: float, *moves: int) -> float:
        tried = candidates_for(fits, X, classes, AT, radius, np.array(moves), np.random.default_rng(7), Budget())
        return float(tried[0].proved)

    assert proved(0.6, 0) < proved(0.6, 1) <= proved(1e-9, 0) == proved(1e-9, 1)
