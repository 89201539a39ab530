"""Ranges over one-sided intervals: soundness, agreement with the search of single points, limits of Delta."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.explain import lines
from gpsuite.methods.robustness.explain.effects import DOWN, UP, OneSidedRanges, one_sided_ranges
from gpsuite.methods.robustness.explain.lines import binary_lines, line_extrema, line_slices
from gpsuite.methods.robustness.level_bound.posterior_slice import posterior_slice, take_lines
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.search.branch_and_bound import UnsoundBoundError
from gpsuite.methods.robustness.search.regions import interval_box
from gpsuite.models.classification.approximation import GPCPosterior
from tests.methods.robustness.exact_posterior import ExactPosterior, normal_probability, probit
from tests.methods.robustness.made_up_posteriors import KERNELS, LINK_NAMES, random_posterior
from tests.models.gpc_problems import fitted_posterior

EVERYWHERE = (-np.inf, np.inf)
INPUTS = np.array([0, 2, 3])


def made_up(kernel: str, link: str = "probit", seed: int = 0, sparse: bool = False) -> tuple[GPCPosterior, FloatArray]:
    rng = np.random.default_rng(seed)
    return random_posterior(rng, kernel, link, 20, 4, sparse), rng.standard_normal((3, 4))


def ranges(
    posterior: GPCPosterior, points: FloatArray, radius: float, tolerance: float = 1e-3, boxes: int | None = None
) -> OneSidedRanges:
    inputs = INPUTS if posterior.X.shape[1] > 2 else np.arange(posterior.X.shape[1])
    lines = binary_lines(posterior, points, inputs)
    return one_sided_ranges(lines, points, inputs, radius, EVERYWHERE, tolerance, Budget(boxes=boxes))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_point_of_an_interval_lies_in_its_range(kernel: str, link: str, sparse: bool) -> None:
    posterior, points = made_up(kernel, link, sparse=sparse)
    found = ranges(posterior, points, 1.5)
    assert found.closed.all()
    for p, i, side in np.ndindex(*found.ends.shape):
        end = points[p].copy()
        end[INPUTS[i]] = found.ends[p, i, side]
        share = np.linspace(0.0, 1.0, 101)[:, None]
        truth = posterior.probability(points[p] + share * (end - points[p]))
        assert found.lowest_proved[p, i, side] - 1e-9 <= truth.min()
        assert truth.max() <= found.highest_proved[p, i, side] + 1e-9
        assert truth.min() >= found.lowest[p, i, side] - 1e-3 - 1e-9
        assert truth.max() <= found.highest[p, i, side] + 1e-3 + 1e-9


@pytest.mark.parametrize("kernel", KERNELS)
def test_slices_are_those_of_single_points(kernel: str) -> None:
    posterior, points = made_up(kernel, seed=3)
    lines = line_slices(posterior, points, INPUTS)
    for row, (p, i) in enumerate(np.ndindex(len(points), len(INPUTS))):
        own = posterior_slice(posterior, points[p], INPUTS[i : i + 1])
        mine = take_lines(lines, np.array([row]))
        for name in ("weight", "fixed", "floor", "ceiling", "mean_error", "gram_error", "lengthscales"):
            wanted = np.asarray(getattr(own, name), dtype=float)
            np.testing.assert_allclose(np.asarray(getattr(mine, name))[0], wanted, rtol=1e-12, err_msg=name)
        place = points[p : p + 1, INPUTS[i : i + 1]] + 0.3
        np.testing.assert_allclose(np.array(mine.moments(place)), np.array(own.moments(place)), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
def test_ranges_meet_those_of_the_search_of_single_points(kernel: str) -> None:
    posterior, points = made_up(kernel, seed=4)
    found = ranges(posterior, points[:1], 0.8, tolerance=1e-4)
    for i, side in np.ndindex(len(INPUTS), 2):
        low, high = points[0].copy(), points[0].copy()
        (low if side == DOWN else high)[INPUTS[i]] = found.ends[0, i, side]
        search = PointSearch(posterior, points[0], INPUTS[i : i + 1])
        own = search.range(interval_box(points[0], low, high), 1e-4, Budget())
        assert found.lowest_proved[0, i, side] <= own.minimum.inner
        assert own.minimum.outer <= found.lowest[0, i, side]
        assert own.maximum.inner <= found.highest_proved[0, i, side]
        assert found.highest[0, i, side] <= own.maximum.outer


def test_proved_ends_hold_in_exact_arithmetic() -> None:
    posterior, points = made_up("squared_exponential", seed=5)
    found = ranges(posterior, points[:1], 1e-7, tolerance=0.0, boxes=200)
    exact = ExactPosterior(posterior)
    for i, side in np.ndindex(len(INPUTS), 2):
        for share in (0.0, 0.5, 1.0):
            x = points[0].copy()
            x[INPUTS[i]] += share * (found.ends[0, i, side] - x[INPUTS[i]])
            truth = normal_probability(probit(*exact.moments(x)))
            assert found.lowest_proved[0, i, side] <= truth <= found.highest_proved[0, i, side]


def test_many_batches_and_few_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, points = made_up("squared_exponential")
    whole = ranges(posterior, points, 1.5)
    monkeypatch.setattr(lines, "ENTRIES", 3 * len(posterior.X))
    parts = ranges(posterior, points, 1.5)
    np.testing.assert_allclose(parts.delta, whole.delta, atol=1e-3)
    assert parts.closed.all()


def test_delta_of_a_small_radius_is_the_gradient_and_its_range_holds_it() -> None:
    posterior, points = fitted_posterior("laplace")[0], np.array([[0.3, -0.2], [1.0, 0.5]])
    gradient = posterior.probability_with_gradient(points)[1]
    errors = []
    for radius in (0.04, 0.02, 0.01):
        found = ranges(posterior, points, radius, tolerance=1e-10)
        low, high = found.delta_range
        assert (low <= found.delta).all() and (found.delta <= high).all()
        assert (high - low <= 1e-9).all()
        errors.append(np.abs(found.delta / (2.0 * radius) - gradient))
    assert (errors[2] < 0.4 * errors[1]).all() and (errors[1] < 0.4 * errors[0]).all()


def test_intervals_are_cut_to_the_domain_and_may_have_no_width() -> None:
    posterior, points = made_up("squared_exponential")
    points = np.clip(points, 0.0, 1.0)
    lines = binary_lines(posterior, points, INPUTS)
    found = one_sided_ranges(lines, points, INPUTS, 5.0, (0.0, 1.0), 1e-4, Budget())
    assert (found.ends[..., DOWN] == 0.0).all() and (found.ends[..., UP] == 1.0).all()
    own = posterior.probability(points)[:, None]
    at_floor = points[:, INPUTS] == 0.0
    assert at_floor.any()
    np.testing.assert_allclose(found.highest[..., DOWN][at_floor], np.broadcast_to(own, at_floor.shape)[at_floor])
    for radius in (-1.0, np.nan):
        with pytest.raises(ValueError, match="radius"):
            one_sided_ranges(lines, points, INPUTS, radius, EVERYWHERE, 1e-4, Budget())
    with pytest.raises(ValueError, match="domain"):
        one_sided_ranges(lines, points, INPUTS, 1.0, (2.0, 3.0), 1e-4, Budget())


def test_a_spent_budget_leaves_valid_ranges() -> None:
    posterior, points = made_up("squared_exponential")
    nothing = ranges(posterior, points, 1.5, boxes=0)
    assert nothing.boxes == 0 and not nothing.closed.any()
    assert (nothing.lowest_proved == 0.0).all() and (nothing.highest_proved == 1.0).all()
    roots = ranges(posterior, points, 1.5, tolerance=1e-9, boxes=2 * nothing.ends.size)
    whole = ranges(posterior, points, 1.5, tolerance=1e-9)
    assert roots.boxes == 2 * nothing.ends.size < whole.boxes
    assert (roots.lowest_proved <= whole.lowest_proved).all()
    assert (roots.highest_proved >= whole.highest_proved).all()


def test_a_wrong_bound_is_found_out() -> None:
    posterior, points = made_up("squared_exponential")
    lines = binary_lines(posterior, points, INPUTS)
    # no rounding and a far too small norm: what is left out of the models counts as nothing
    slices = replace(lines.slices, norm2=0.0, mean_error=-1e-3 + 0.0 * np.asarray(lines.slices.mean_error))
    wrong = replace(lines, slices=slices, level_bound=replace(lines.level_bound, form=slices))
    with pytest.raises(UnsoundBoundError):
        which = np.arange(len(slices.dims))
        low = points[:, INPUTS].ravel()
        line_extrema(wrong, which, low, low + 1.5, 1, 1e-6, Budget())


@pytest.mark.parametrize("fault", ["points", "inputs", "interval"])
def test_what_does_not_fit_is_refused(fault: str) -> None:
    posterior, points = made_up("squared_exponential")
    with pytest.raises(ValueError, match=r"points|inputs|intervals"):
        if fault == "points":
            line_slices(posterior, points[:, :2], INPUTS)
        elif fault == "inputs":
            line_slices(posterior, points, np.array([1, 1]))
        else:
            line_extrema(
                binary_lines(posterior, points, INPUTS), np.arange(1), np.ones(1), np.zeros(1), 1, 0.1, Budget()
            )
