"""Searches with the level bound: what every answer must satisfy, and the cases at the edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.level_bound.level_search import level_search, root_model
from gpsuite.methods.robustness.search.attacks import local_search, strong_attack
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region, box, l1_ball, l2_ball, linf_ball
from gpsuite.models.classification.approximation import GPCPosterior
from tests.arrays import Array
from tests.methods.robustness.made_up_posteriors import KERNELS, random_posterior

EPS = 1e-3


def problem(kernel: str, link: str = "probit", seed: int = 0, inputs: int = 3) -> tuple[GPCPosterior, Array]:
    rng = np.random.default_rng([seed, inputs])
    posterior = random_posterior(rng, kernel, link, 20, inputs)
    return replace(posterior, alpha=5.0 * posterior.alpha / np.sqrt(posterior.variance)), posterior.X[0] + 0.1


def run(posterior: GPCPosterior, region: Region, sign: int = 1, eps: float = EPS, **more: Any) -> Extremum:
    bound = level_bound(posterior, region.centre, region.free)
    budget = Budget(boxes=more.pop("boxes", 4000))
    attack = local_search(posterior, region, sign)
    return level_search(bound, region, eps, budget, sign, attack=attack, **more)


@pytest.mark.parametrize(
    ("kernel", "link"),
    [*((kernel, "probit") for kernel in KERNELS), ("squared_exponential", "logistic"), ("matern52", "squeezed_probit")],
)
def test_attacks_find_nothing_beyond_and_the_gap_closes(kernel: str, link: str) -> None:
    posterior, x = problem(kernel, link)
    rng = np.random.default_rng(1)
    for make in (linf_ball, l2_ball, l1_ball):
        region = make(x, 0.6 * float(posterior.lengthscales.min()))
        for sign in (-1, 1):
            found = run(posterior, region, sign)
            assert found.status == "closed"
            assert found.gap <= EPS
            _, reached = strong_attack(posterior, region, sign, 6, rng)
            assert sign * reached <= sign * found.outer
            assert found.witness is not None
            assert region.contains(found.witness[None])[0]
            attained = posterior.probability(region.embed(found.witness[None]))[0]
            assert attained == pytest.approx(found.inner, abs=1e-9)
            assert sign * reached <= sign * found.inner + 1e-5


@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_the_minimum_is_the_maximum_of_the_other_class(link: str) -> None:
    posterior, x = problem("squared_exponential", link)
    region = linf_ball(x, float(posterior.lengthscales.min()))
    mirrored = replace(posterior, alpha=-posterior.alpha)
    low, high = run(posterior, region, -1), run(mirrored, region, 1)
    assert low.boxes == high.boxes
    assert low.inner == pytest.approx(1.0 - high.inner, abs=1e-12)
    assert low.outer == pytest.approx(1.0 - high.outer, abs=1e-9)
    np.testing.assert_allclose(low.witness, high.witness)  # type: ignore[arg-type]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_outer_bound_falls_with_the_budget_and_is_the_worst_leaf(kernel: str) -> None:
    posterior, x = problem(kernel)
    region = linf_ball(x, 2.0 * float(posterior.lengthscales.min()))
    bound = level_bound(posterior, region.centre, region.free)
    before = 1.0
    for boxes in (0, 1, 3, 9, 33, 129, 513):
        found = run(posterior, region, 1, 1e-6, boxes=boxes)
        assert found.inner <= found.outer <= before
        before = found.outer
        tree = found.tree
        leaves = tree.bound[tree.leaves]
        assert found.outer == bound.outward_probability(leaves.max()[None], leaves.max()[None])[1][0]
        assert found.boxes <= boxes
        assert (np.diff(found.trace[:, 3]) <= 0).all()


def test_the_root_of_both_ends_can_be_shared() -> None:
    posterior, x = problem("squared_exponential")
    region = linf_ball(x, 0.5 * float(posterior.lengthscales.min()))
    bound = level_bound(posterior, region.centre, region.free)
    root = root_model(bound, region)
    for sign in (-1, 1):
        alone = level_search(bound, region, EPS, Budget(), sign)
        shared = level_search(bound, region, EPS, Budget(), sign, root=root)
        assert (alone.inner, alone.outer, alone.boxes) == (shared.inner, shared.outer, shared.boxes)


@pytest.mark.parametrize("kernel", KERNELS)
def test_inputs_of_no_width_change_no_range_and_a_point_takes_one_box(kernel: str) -> None:
    posterior, x = problem(kernel)
    radii = np.array([0.5 * float(posterior.lengthscales[0]), 0.0, 0.0])
    thin = replace(box(x, radii), free=np.arange(3), lower=x - radii, upper=x + radii)
    narrow = box(x, radii)
    assert len(narrow.free) == 1
    assert run(posterior, thin).outer == pytest.approx(run(posterior, narrow).outer, abs=EPS)
    point = run(posterior, box(x, 0.0), 1, 0.0)
    assert point.boxes == 1
    assert point.gap < 1e-7
    assert point.inner == pytest.approx(posterior.probability(x[None])[0], abs=1e-8)


def test_deciding_a_class_ends_at_the_first_proof() -> None:
    posterior, x = problem("squared_exponential")
    region = linf_ball(x, 0.3 * float(posterior.lengthscales.min()))
    for sign in (-1, 1):
        full = run(posterior, region, sign, 1e-6)
        for decide in (full.inner + sign * 0.01, full.inner - sign * 0.01):
            found = run(posterior, region, sign, 1e-6, decide=float(decide))
            assert found.status == "decided"
            assert found.boxes <= full.boxes
            reached = sign * decide < sign * full.inner
            assert (sign * found.inner > sign * decide) == reached


def test_more_than_64_free_inputs_stop_at_degree_two() -> None:
    rng = np.random.default_rng(4)
    for kernel in KERNELS:
        posterior, x = problem(kernel, inputs=70)
        region = linf_ball(x, 0.02 * float(posterior.lengthscales.min()))
        bound = level_bound(posterior, region.centre, region.free)
        assert root_model(bound, region)[1].mean.model.cubic is None
        found = run(posterior, region, 1, 1e-2, boxes=200)
        points = rng.uniform(region.lower, region.upper, (500, 70))
        assert posterior.probability(points).max() <= found.outer
        assert found.status == "closed"


def test_a_tolerance_that_nothing_exceeds_takes_one_box() -> None:
    posterior, x = problem("squared_exponential")
    found = run(posterior, linf_ball(x, 3.0 * float(posterior.lengthscales.min())), 1, 1.0)
    assert found.status == "closed"
    assert found.boxes == 1


@pytest.mark.parametrize(("tolerance", "sign", "batch"), [(-1.0, 1, 16), (np.nan, 1, 16), (1e-3, 0, 16), (1e-3, 1, 1)])
def test_arguments_are_checked(tolerance: float, sign: int, batch: int) -> None:
    posterior, x = problem("squared_exponential")
    with pytest.raises(ValueError, match="needed"):
        run(posterior, box(x, 0.1), sign, tolerance, batch=batch)
    with pytest.raises(ValueError, match="free inputs"):
        level_bound(posterior, x, np.array([0, 0]))
    with pytest.raises(ValueError, match="x0"):
        level_bound(posterior, x[:2], np.arange(2))
