"""Ranges of one of several classes over one-sided intervals: soundness, two classes against the binary code."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.explain.effects import OneSidedRanges, one_sided_ranges
from gpsuite.methods.robustness.explain.lines import binary_lines, softmax_lines
from gpsuite.methods.robustness.multiclass import softmax_bound
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.softmax_laplace import softmax_laplace
from gpsuite.models.config import Hyperparameters
from tests.models.softmax_problems import drawn_problem

EVERYWHERE = (-np.inf, np.inf)
INPUTS = np.array([0, 1])
POINTS = np.array([[0.3, -0.2], [1.0, 0.5]])


def fitted(C: int, kernel: str = "squared_exponential") -> MultiClassPosterior:
    fit = softmax_laplace(drawn_problem(C, kernel=kernel), Hyperparameters(3.0, (0.9, 1.4)))
    return fit.require_converged()


def ranges(posterior: MultiClassPosterior, own: int, tolerance: float, radius: float = 0.8) -> OneSidedRanges:
    lines = softmax_lines(posterior, POINTS, INPUTS, own)
    return one_sided_ranges(lines, POINTS, INPUTS, radius, EVERYWHERE, tolerance, Budget(boxes=4000))


def path(point: FloatArray, place: int, end: float) -> FloatArray:
    far = point.copy()
    far[INPUTS[place]] = end
    return np.asarray(point + np.linspace(0.0, 1.0, 41)[:, None] * (far - point))


@pytest.mark.parametrize(("C", "kernel"), [(3, "squared_exponential"), (3, "matern52"), (4, "squared_exponential")])
def test_every_point_of_an_interval_lies_in_its_range(C: int, kernel: str) -> None:
    posterior = fitted(C, kernel)
    own = C - 1
    found = ranges(posterior, own, 0.05)
    assert found.closed.all()
    for p, i, side in np.ndindex(*found.ends.shape):
        truth = posterior.probabilities(path(POINTS[p], i, found.ends[p, i, side]))[:, own]
        assert found.lowest_proved[p, i, side] - 1e-9 <= truth.min()
        assert truth.max() <= found.highest_proved[p, i, side] + 1e-9
        assert found.lowest[p, i, side] <= truth.min() + 0.05
        assert found.highest[p, i, side] >= truth.max() - 0.05


def test_two_classes_agree_with_the_binary_code() -> None:
    posterior = fitted(2)
    several = ranges(posterior, 0, 1e-3)
    lines = binary_lines(posterior.difference(0, 1), POINTS, INPUTS)
    binary = one_sided_ranges(lines, POINTS, INPUTS, 0.8, EVERYWHERE, 1e-3, Budget())
    assert several.closed.all() and binary.closed.all()
    for one, other in ((several, binary), (binary, several)):
        assert (one.lowest_proved <= other.lowest + 1e-9).all()
        assert (one.highest_proved >= other.highest - 1e-9).all()
    np.testing.assert_allclose(several.delta, binary.delta, atol=4e-3)


def test_class_probabilities_along_one_line_sum_to_one() -> None:
    posterior = fitted(3)
    lines = softmax_lines(posterior, POINTS, INPUTS, 0)
    which, at = np.arange(4), POINTS.ravel()
    total = sum(np.array(lines.of_class(own).evaluate(which, at)) for own in range(3))
    np.testing.assert_allclose(np.asarray(total).mean(axis=0), 1.0, atol=1e-8)
    with pytest.raises(ValueError, match="class 3"):
        softmax_lines(posterior, POINTS, INPUTS, 3)


@pytest.mark.parametrize(("C", "proved"), [(3, True), (5, True)])
def test_lines_know_whether_their_cubatures_are_proved(C: int, proved: bool) -> None:
    lines = softmax_lines(fitted(C), POINTS, INPUTS, 0)
    one_sided_ranges(lines, POINTS, INPUTS, 0.1, EVERYWHERE, 0.3, Budget(boxes=40))
    assert lines.proof.proved is proved


def test_lines_note_pieces_and_points_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax_bound, "enclosed_moments", None)  # Sobol points, whose error is stated only
    which, low = np.array([0]), np.array([0.1])
    pieces, points = (softmax_lines(fitted(5), POINTS, INPUTS, 0) for _ in range(2))
    pieces.pieces(which, low, low + 0.1)
    points.evaluate(which, low)
    assert not pieces.proof.proved and not points.proof.proved
