"""Searches for several classes: reference extrema, two classes as the binary search, verdicts with witnesses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.multiclass import softmax_bound
from gpsuite.methods.robustness.multiclass.softmax_bound import SoftmaxBound
from gpsuite.methods.robustness.point_search import PointSearch, Quantity
from gpsuite.methods.robustness.search.regions import interval_box, l1_ball, l2_ball, linf_ball
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, softmax_moments
from gpsuite.models.classification.softmax_laplace import softmax_laplace
from gpsuite.models.config import Hyperparameters
from tests.models.softmax_problems import drawn_problem, reference_fit

HERE = Path(__file__).parents[3] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "robustness.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
CASES = [pytest.param(case, id=case["id"]) for case in REFERENCE.get("cases", []) if case["kind"] == "multiclass"]
SEARCHED = 1e-6  # the reference's extrema were found by search
FREE = np.arange(2)


def posterior_of(C: int, kernel: str = "squared_exponential") -> MultiClassPosterior:
    fit = softmax_laplace(drawn_problem(C, kernel=kernel), Hyperparameters(3.0, (1.1, 0.8)))
    return fit.require_converged()


@pytest.mark.reference
@pytest.mark.parametrize("case", CASES)
def test_every_reference_box_is_enclosed_and_closes(case: dict[str, Any]) -> None:
    posterior = reference_fit(case).require_converged()
    for wanted in case["boxes"]:
        lower, upper = np.array(wanted["lower"]), np.array(wanted["upper"])
        region = interval_box(np.clip(0.5 * (lower + upper), lower, upper), lower, upper)
        search = PointSearch(posterior, region.centre, region.free)
        for each in wanted["classes"]:
            for tolerance, boxes in ((3e-2, 10_000), (0.0, 6)):
                found = search.range(region, tolerance, Budget(boxes=boxes), each["cls"])
                name = f"{wanted['name']} class {each['cls']} {tolerance}"
                assert found.minimum.outer <= each["pi_min"] + SEARCHED, name
                assert found.maximum.outer >= each["pi_max"] - SEARCHED, name
                assert each["pi_min"] - SEARCHED <= found.minimum.inner, name
                assert found.maximum.inner <= each["pi_max"] + SEARCHED, name
                if tolerance:
                    assert found.minimum.status == found.maximum.status == "closed", name
                    assert each["pi_min"] - found.minimum.outer <= tolerance + SEARCHED, name
                    assert found.maximum.outer - each["pi_max"] <= tolerance + SEARCHED, name


@pytest.mark.parametrize("kernel", ["squared_exponential", "matern52"])
def test_two_classes_have_the_ranges_of_the_binary_search(kernel: str) -> None:
    posterior = posterior_of(2, kernel)
    point = np.array([0.2, 0.1])
    region = linf_ball(point, 0.3)
    found = PointSearch(posterior, point, FREE).range(region, 1e-2, Budget(boxes=5000), 1)
    binary = PointSearch(posterior.difference(1, 0), point, FREE).range(region, 1e-4, Budget(boxes=5000))
    for mine, theirs in ((found.minimum, binary.minimum), (found.maximum, binary.maximum)):
        assert mine.status == theirs.status == "closed"
        assert mine.inner == pytest.approx(theirs.inner, abs=1e-3)
        # both enclose the same number
        assert mine.sign * (mine.outer - theirs.inner) >= -1e-12
        assert mine.sign * (theirs.outer - mine.inner) >= -1e-12


@pytest.mark.parametrize("C", [2, 3, 5])
def test_a_verdict_agrees_with_dense_sampling(C: int) -> None:
    posterior = posterior_of(C)
    rng = np.random.default_rng(C)
    statuses = set()
    for radius in (0.02, 2.0):
        for start in range(3):
            point = drawn_problem(C).X[start]
            search = PointSearch(posterior, point, FREE)
            region = linf_ball(point, radius)
            verdict, extrema = search.decide(region, Budget(boxes=400))
            p = posterior.probabilities(rng.uniform(region.lower, region.upper, (200, 2)))
            statuses.add(verdict.status)
            if verdict.status == "safe":
                assert len(extrema) == C - 1 and np.all(p.argmax(axis=1) == search.centre.own)
            if verdict.status == "unsafe":
                assert verdict.counterexample is not None
                assert region.contains(verdict.counterexample[None])[0]
                found = posterior.probabilities(verdict.counterexample[None])[0]
                assert found.argmax() != search.centre.own
    assert {"safe", "unsafe"} <= statuses


@pytest.mark.parametrize("ball", [l1_ball, l2_ball])
def test_balls_lie_inside_the_box(ball: Any) -> None:
    posterior, point = posterior_of(3), np.array([0.1, -0.2])
    search = PointSearch(posterior, point, FREE)
    whole = search.extremum(linf_ball(point, 0.2), 1, 0.02, Budget(boxes=2000), 0)
    part = search.extremum(ball(point, 0.2), 1, 0.02, Budget(boxes=2000), 0)
    assert part.inner <= whole.outer and part.status == "closed"
    assert part.witness is not None and ball(point, 0.2).contains(part.witness[None])[0]


def test_a_spent_budget_gives_the_trivial_bound_and_an_unknown_verdict() -> None:
    posterior, point = posterior_of(3), np.array([0.1, -0.2])
    search, region = PointSearch(posterior, point, FREE), linf_ball(point, 0.2)
    assert search.extremum(region, 1, 0.02, Budget(boxes=0), 0).outer == 1.0
    verdict, _ = search.decide(region, Budget(boxes=0))
    assert verdict.status == "unknown"


def test_equal_classes_are_a_tie_and_not_a_class() -> None:
    X = np.array([[0.0], [1.0]])
    root = np.zeros((1, 3, 2))
    flat = MultiClassPosterior(X, "squared_exponential", 1.0, np.ones(1), np.zeros((3, 2)), root, -np.ones(1), 1.0)
    search = PointSearch(flat, np.zeros(1), np.arange(1))
    assert "tie within rounding" in search.centre.undecided
    assert search.decide(linf_ball(np.zeros(1), 0.1), Budget(boxes=50))[0].status == "unknown"


def test_a_region_around_another_point_is_refused() -> None:
    search = PointSearch(posterior_of(3), np.zeros(2), FREE)
    with pytest.raises(ValueError, match="another point"):
        search.extremum(linf_ball(np.ones(2), 0.1), 1, 0.02, Budget(), 0)


def peaked(variance: float, peaks: list[float]) -> MultiClassPosterior:
    """One datum at 0, where the latent means are these and hardly vary; far from it they have the prior's variance."""
    C = len(peaks)
    root = np.zeros((C, C, 1))
    root[range(C), range(C), 0] = 1.0 / np.sqrt(variance + 0.5)
    alpha = np.array(peaks)[:, None] / variance
    X, kernel = np.zeros((1, 1)), "squared_exponential"
    return MultiClassPosterior(X, kernel, variance, np.ones(1), alpha, root, -np.ones(C), 1.0)


@pytest.mark.parametrize(
    ("posterior", "radius", "proved"),
    [
        (peaked(400.0, [60.0, -20.0, -20.0]), 0.01, True),
        (peaked(400.0, [60.0, -20.0, -20.0]), 0.6, True),  # by the rule at the point, not all over the box
        (peaked(4.0, [3.0, 0.0, 0.0, 0.0, -1.0]), 0.01, True),
        (posterior_of(3), 0.1, True),
    ],
)
def test_a_region_is_proved_if_every_cubature_in_it_is(
    posterior: MultiClassPosterior, radius: float, proved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def spy(*given: Any) -> Any:
        found = softmax_moments(*given)
        seen.append(found.proved)
        return found

    monkeypatch.setattr(softmax_bound, "softmax_moments", spy)
    x = posterior.X[0]
    region = linf_ball(x, radius, free=range(len(x)))
    search = PointSearch(posterior, x, np.arange(len(x)))
    verdict, found = search.decide(region, Budget(boxes=2000))
    assert verdict.status == "safe" and search.proves(found.values()) is all(seen) is proved
    spread = search.range(region, 0.05, Budget(boxes=2000))
    assert search.proves((spread.minimum, spread.maximum)) is all(seen) is proved
    nothing_new = search.decide(region, Budget(boxes=2000))[1]  # from what is kept
    assert search.proves(nothing_new.values()) is proved


@pytest.mark.parametrize("rival", [None, 1])
def test_a_quantity_notes_boxes_and_points_alike(rival: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax_bound, "enclosed_moments", None)  # Sobol points, whose error is stated only
    posterior = peaked(400.0, [60.0, -20.0, -20.0])
    bound = SoftmaxBound(posterior, posterior.X[0], np.array([0]))
    near, far = np.array([[0.001]]), np.array([[0.6]])
    for asked in (lambda each, x: each.bounds(x, x + 0.001), lambda each, x: each.evaluate(x)):
        quantity = Quantity(bound, 0, rival)
        asked(quantity, near)
        assert quantity.proof.proved
        asked(quantity, far)
        assert not quantity.proof.proved
    assert bound.class_bounds(near, near + 0.001, 0).proved and not bound.class_bounds(far, far, 0).proved
