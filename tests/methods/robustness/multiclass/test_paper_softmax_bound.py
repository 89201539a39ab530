"""The paper's cells for three classes: reference boxes, masses of latent rectangles, the sign that is printed wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import (
    LatentBoxes,
    PaperSoftmaxBound,
    _square,
    class_probability_cells,
    mass_of_cells,
)
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.search.regions import linf_ball
from tests.methods.robustness.multiclass.test_multiclass_search import CASES, SEARCHED, posterior_of
from tests.models.softmax_problems import reference_fit

CUBATURE = 1e-6  # of scipy's normal probabilities of rectangles


def at_point(mean: FloatArray, covariance: FloatArray) -> LatentBoxes:
    return LatentBoxes((mean[None], mean[None]), (covariance[None], covariance[None]))


def drawn_covariance(rng: np.random.Generator) -> FloatArray:
    root = rng.standard_normal((3, 3))
    return np.asarray(root @ root.T + 0.05 * np.eye(3))


def rectangle_mass(mean: FloatArray, covariance: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    normal = multivariate_normal(mean, covariance, abseps=1e-9, releps=1e-9, maxpts=2_000_000)
    return float(normal.cdf(upper, lower_limit=lower))


@pytest.mark.reference
@pytest.mark.parametrize("case", [each for each in CASES if each.values[0]["num_classes"] == 3])
def test_every_reference_box_is_enclosed(case: dict[str, Any]) -> None:
    posterior = reference_fit(case).require_converged()
    for wanted in case["boxes"]:
        lower, upper = np.array([wanted["lower"]]), np.array([wanted["upper"]])
        bound = PaperSoftmaxBound(posterior, 0.5 * (lower + upper)[0], np.arange(lower.shape[1]), n_cells=12)
        for each in wanted["classes"]:
            ends = bound.class_bounds(lower, upper, each["cls"])
            assert ends.low[0] <= each["pi_min"] + SEARCHED and each["pi_max"] - SEARCHED <= ends.high[0]


def test_the_masses_of_rectangles_lie_within_the_corrected_bounds_and_outside_the_printed_ones() -> None:
    """Prop. 4 as printed subtracts what the conditional mean adds."""
    rng, refuted = np.random.default_rng(1), 0
    for _ in range(30):
        mean, covariance = rng.standard_normal(3), drawn_covariance(rng)
        deviation = np.sqrt(np.diag(covariance))
        start = mean + deviation * rng.uniform(-2.0, 1.5, 3)
        ends = start, start + deviation * rng.uniform(0.1, 0.8, 3)
        edges = [np.array([[low, high]]) for low, high in zip(*ends, strict=True)]
        true = rectangle_mass(mean, covariance, *ends)
        for sign in (1.0, -1.0):
            least, most = (each.item() for each in mass_of_cells(at_point(mean, covariance), edges, sign))
            inside = least - CUBATURE <= true <= most + CUBATURE
            if sign > 0.0:
                assert inside, (mean, covariance, ends)
            refuted += not inside
    assert refuted >= 5


def test_masses_over_ranges_enclose_those_of_every_member() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        mean, covariance = rng.standard_normal(3), drawn_covariance(rng)
        width, other = 0.05 * rng.random(3), 0.02 * rng.standard_normal((3, 3))
        change = 0.5 * (other + other.T)
        far = covariance + change
        if np.linalg.eigvalsh(far)[0] <= 0.0:
            continue
        latent = LatentBoxes(
            ((mean - width)[None], (mean + width)[None]),
            (np.minimum(covariance, far)[None], np.maximum(covariance, far)[None]),
        )
        lower = mean + rng.uniform(-1.5, 1.0, 3)
        upper = lower + rng.uniform(0.2, 1.0, 3)
        edges = [np.array([[a, b]]) for a, b in zip(lower, upper, strict=True)]
        least, most = (each.item() for each in mass_of_cells(latent, edges, 1.0))
        for share in (0.0, 0.5, 1.0):
            m, S = mean + (2.0 * share - 1.0) * width, covariance + share * change
            assert least - CUBATURE <= rectangle_mass(m, S, lower, upper) <= most + CUBATURE


def test_more_cells_are_sharper_and_independent_values_close() -> None:
    latent = at_point(np.array([0.5, -0.3, 0.1]), 0.4 * np.eye(3))
    widths = [high[0] - low[0] for low, high in (class_probability_cells(latent, 0, n) for n in (6, 12, 48))]
    assert widths[2] < 0.5 * widths[1] < 0.5 * widths[0]
    assert widths[2] < 0.25
    rng = np.random.default_rng(3)
    f = np.array([0.5, -0.3, 0.1]) + np.sqrt(0.4) * rng.standard_normal((200_000, 3))
    p = np.exp(f[:, 0]) / np.exp(f).sum(axis=1)
    low, high = class_probability_cells(latent, 0, 48)
    assert low[0] <= p.mean() <= high[0]
    with pytest.raises(ValueError, match="at least 3"):
        class_probability_cells(latent, 0, 2)


@pytest.mark.parametrize("part", ["mean", "covariance"])
def test_what_is_not_known_of_a_box_says_nothing(part: str) -> None:
    """Interval products count a NaN as zero: without a look at what is known, correlated classes would count as not."""
    latent = at_point(np.array([2.0, 0.0, 0.0]), np.eye(3) + 0.5)
    unknown = [np.repeat(each, 2, axis=0) for ends in (latent.mean, latent.covariance) for each in ends]
    place = {"mean": (0, 1, 0), "covariance": (2, 1, 0, 1)}[part]
    unknown[place[0]][place[1:]] = np.nan
    found = class_probability_cells(LatentBoxes((unknown[0], unknown[1]), (unknown[2], unknown[3])), 0)
    assert [each[1] for each in found] == [0.0, 1.0]
    np.testing.assert_array_equal([each[0] for each in found], [each[0] for each in class_probability_cells(latent, 0)])


def test_a_search_with_the_paper_s_bound_ends_with_its_budget_and_encloses_ours() -> None:
    posterior, point = posterior_of(3), np.array([0.1, -0.2])
    region = linf_ball(point, 0.02)
    free = np.arange(2)
    ours = PointSearch(posterior, point, free).range(region, 0.01, Budget(boxes=200), 1)
    paper = PointSearch(posterior, point, free, "paper").range(region, 0.01, Budget(boxes=20), 1)
    assert paper.minimum.status == paper.maximum.status == "budget"
    assert paper.minimum.outer <= ours.minimum.inner <= ours.maximum.inner <= paper.maximum.outer


def test_other_numbers_of_classes_are_refused() -> None:
    with pytest.raises(UserError, match="bound=paper"):
        PaperSoftmaxBound(posterior_of(4), np.zeros(2), np.arange(2))


def test_the_square_of_a_range_about_zero_begins_at_zero() -> None:
    low, high = _square((np.array([-1.0, 1.0, -3.0]), np.array([2.0, 2.0, -1.0])))
    np.testing.assert_array_equal(low, [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(high, [4.0, 4.0, 9.0])
