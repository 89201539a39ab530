from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.methods.robustness import paper_bound as line_sums_module
from gpsuite.methods.robustness import paper_bound as pairs_module
from gpsuite.methods.robustness.class_probability import score_of
from gpsuite.methods.robustness.paper_bound import Pairs, PaperBound, line_sums, pair_variance, paper_bound
from gpsuite.methods.robustness.search.branch_and_bound import branch_and_bound
from gpsuite.methods.robustness.search.regions import l2_ball, linf_ball
from gpsuite.models.classification.links import LINKS
from tests.arrays import Array
from tests.methods.robustness.made_up_posteriors import (
    LINK_NAMES,
    Exact,
    count_violations,
    random_boxes,
    random_posterior,
    random_setting,
)
from tests.models.gpc_problems import fitted_posterior


@pytest.mark.guarantee
@pytest.mark.parametrize(("variant", "n", "models", "boxes"), [("quick", 14, 8, 16), ("slow", 5, 3, 4)])
def test_every_point_lies_within_the_bounds(variant: str, n: int, models: int, boxes: int) -> None:
    rng = np.random.default_rng(23)
    failures = 0
    for model in range(models):
        posterior, x0, free = random_setting(
            rng, "squared_exponential", LINK_NAMES[model % 3], n, 6, variant == "quick" and model % 2 == 1
        )
        low, high = random_boxes(rng, posterior, x0, free, boxes)
        bound = paper_bound(posterior, x0, free, variant)  # type: ignore[arg-type]
        failures += count_violations(rng, bound, Exact(posterior, x0, free), low, high, 8)[1]
    assert failures == 0


@pytest.mark.parametrize("variant", ["quick", "slow"])
def test_a_point_box_gives_the_value_at_the_point(variant: str) -> None:
    posterior = random_posterior(np.random.default_rng(1), "squared_exponential", "probit", 6, 2)
    x0, free = posterior.X[0] + 0.1, np.arange(2)
    bound = paper_bound(posterior, x0, free, variant)  # type: ignore[arg-type]
    b = bound.bounds(x0[None], x0[None])
    mean, variance = posterior.latent(x0[None])
    scale = posterior.variance
    assert b.mean_low[0] == pytest.approx(mean[0], abs=1e-9 * scale)
    assert b.mean_high[0] == pytest.approx(mean[0], abs=1e-9 * scale)
    assert b.variance_low[0] == pytest.approx(variance[0], abs=1e-8 * scale)
    assert b.variance_high[0] == pytest.approx(variance[0], abs=1e-8 * scale)
    assert bound.to_probability(b.centre)[0] == pytest.approx(posterior.probability(x0[None])[0], abs=1e-9)


def test_programs_are_tighter_than_pairs_above() -> None:
    posterior = random_posterior(np.random.default_rng(9), "squared_exponential", "probit", 10, 2)
    free, centre = np.arange(2), posterior.X[:3]
    half = 0.4 * posterior.lengthscales
    quick, slow = (
        paper_bound(posterior, centre[0], free, variant).bounds(centre - half, centre + half)
        for variant in ("quick", "slow")
    )
    assert np.all(slow.variance_high <= quick.variance_high * (1.0 + 1e-3))


def test_what_the_baseline_cannot_do_is_refused() -> None:
    rng = np.random.default_rng(0)
    other = random_posterior(rng, "matern32", "probit", 4, 2)
    sparse = random_posterior(rng, "squared_exponential", "probit", 4, 2, sparse=True)
    with pytest.raises(UserError, match="squared exponential"):
        paper_bound(other, other.X[0], np.arange(2))
    with pytest.raises(UserError, match="Laplace"):
        paper_bound(sparse, sparse.X[0], np.arange(2), "slow")
    with pytest.raises(UserError, match="variant"):
        paper_bound(sparse, sparse.X[0], np.arange(2), "other")  # type: ignore[arg-type]


def pair_lines(U: Array, centre: Array, radius: Array) -> tuple[Array, tuple[tuple[Array, Array], ...]]:
    """Return the largest q_i + q_l over a box, and tangent and chord by value at zero and fall per q; [P] each."""
    i, k = np.triu_indices(len(U))
    apart, gap = np.abs(0.5 * (U[i] + U[k]) - centre), 0.5 * np.sum((U[i] - U[k]) ** 2, axis=1)
    near = 2 * np.sum(np.maximum(0.0, apart - radius) ** 2, axis=1) + gap
    most = 2 * np.sum((apart + radius) ** 2, axis=1) + gap
    middle = 0.5 * (near + most)
    fall = (np.exp(-near / 2) - np.exp(-most / 2)) / (most - near)
    tangent = np.exp(-middle / 2) * (1 + middle / 2), np.exp(-middle / 2) / 2
    return most, (tangent, (np.exp(-near / 2) + fall * near, fall))


@pytest.mark.parametrize("block", [1, 12, 29, 100_000])
def test_blocks_of_pairs_add_up_to_the_sums_of_all_lines(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """One row a block, several, blocks of unequal rows, and all pairs in one; every pair counts once."""
    monkeypatch.setattr(line_sums_module, "_BLOCK", block)
    rng = np.random.default_rng(5)
    n, d = 11, 3
    U, unit = rng.standard_normal((n, d)), np.sort(rng.uniform(1.0, 2.0, n))
    weights = np.triu(rng.standard_normal((n, n)))
    centre = rng.standard_normal((4, d))
    radius = 10.0 ** np.array([[-3.0], [-1.0], [0.0], [1.0]]) * rng.uniform(0.2, 1.0, (4, d))
    found = line_sums(U, weights, unit, centre, radius)
    i, k = np.triu_indices(n)
    w = weights[i, k]
    for b in range(4):
        most, (tangent, chord) = pair_lines(U, centre[b], radius[b])
        for side, positive in enumerate((tangent, chord)):
            negative = chord if side == 0 else tangent
            value, fall = (w * np.where(w >= 0, positive[part], negative[part]) for part in (0, 1))
            slope = np.bincount(i, fall, n) + np.bincount(k, fall, n)
            size, steep = (float(unit[k] @ np.abs(each)) for each in (np.abs(value) + np.abs(fall) * most, fall))
            np.testing.assert_allclose(found.value[side, b], value.sum(), atol=1e-12 * size, rtol=0)
            np.testing.assert_allclose(found.slope[side, b], slope, atol=1e-11 * steep, rtol=0)
            assert size <= found.size[b] * (1 + 1e-12)
            assert steep <= found.steep[b] * (1 + 1e-12)
        farthest = np.sum((np.abs(U - centre[b]) + radius[b]) ** 2, axis=1)
        steepest = unit[k] * np.abs(w) * chord[1]
        assert found.steep[b] == pytest.approx(steepest.sum(), rel=1e-9)
        terms = steepest @ (2.0 + 2.0 * (farthest[i] + farthest[k]))
        assert found.size[b] == pytest.approx(terms, rel=1e-9)


@pytest.mark.parametrize("radius", [0.0, 1e-200, 1e-17, 1e-12, 1e-9])
def test_chords_over_next_to_nothing_are_tangents(radius: float) -> None:
    """There a chord's slope would be rounding; data that are points of the box have no distance at all."""
    rng = np.random.default_rng(6)
    U = np.round(4.0 * rng.standard_normal((7, 2))) / 4.0  # distances without rounding
    weights = np.triu(rng.standard_normal((7, 7)))
    found = line_sums(U, weights, np.ones(7), U[:3], np.full((3, 2), radius))
    q = np.sum((U[:3, None] - U) ** 2, axis=2)
    product = weights * np.exp(-0.5 * (q[:, :, None] + q[:, None]))
    slope = 0.5 * (product.sum(axis=1) + product.sum(axis=2))
    for side in (0, 1):
        at_centre = found.value[side] - np.sum(found.slope[side] * q, axis=1)
        np.testing.assert_allclose(at_centre, product.sum(axis=(1, 2)), atol=1e-12, rtol=0)
        np.testing.assert_allclose(found.slope[side], slope, atol=2e-3, rtol=0)


@pytest.mark.guarantee
def test_every_point_lies_within_the_bounds_of_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_sums_module, "_BLOCK", 30)
    rng = np.random.default_rng(29)
    failures = 0
    for model in range(6):
        posterior, x0, free = random_setting(rng, "squared_exponential", "probit", 17, 5, model % 2 == 1)
        low, high = random_boxes(rng, posterior, x0, free, 16)
        bound = paper_bound(posterior, x0, free)
        failures += count_violations(rng, bound, Exact(posterior, x0, free), low, high, 8)[1]
    assert failures == 0


def relaxation(weights: Array, q: Array, nearest: Array, farthest: Array) -> tuple[float, float]:
    """Return sum_p weights_p line_p(q_p), the line below weights_p exp(-q/2) on [nearest, farthest], and its size."""
    middle = 0.5 * (nearest + farthest)
    tangent = np.exp(-middle / 2) * (1 - (q - middle) / 2)
    width = np.where(farthest > nearest, farthest - nearest, 1.0)
    rise = (np.exp(-farthest / 2) - np.exp(-nearest / 2)) / width
    line = np.where(weights >= 0, tangent, np.exp(-nearest / 2) + rise * (q - nearest))
    return float(weights @ line), float(np.abs(weights) @ (1 + np.abs(line)))


def relaxed_moments(bound: PaperBound, low: Array, high: Array, points: Array) -> tuple[list[float], list[float]]:
    """Return what the relaxations of one box give at its four candidates, and the sizes of their sums."""
    form, s = bound.form, bound.form.variance
    lower, upper, x = (form.scale(each) for each in (low, high, points))
    inside = np.clip(form.U, lower, upper)
    data = (
        np.sum((form.U - inside) ** 2, axis=1),
        np.sum(np.maximum(np.abs(form.U - lower), np.abs(form.U - upper)) ** 2, axis=1),
    )
    i, k = np.triu_indices(len(form.U))
    signs = np.where(np.arange(len(form.root)) < form.n_negative, 1.0, -1.0)
    R = ((form.root.T * signs) @ form.root)[i, k] * np.where(i == k, 1.0, 2.0)
    middle, gap = 0.5 * (form.U[i] + form.U[k]), 0.5 * np.sum((form.U[i] - form.U[k]) ** 2, axis=1)
    near = 2 * np.sum((middle - np.clip(middle, lower, upper)) ** 2, axis=1) + gap
    far = 2 * np.sum(np.maximum(np.abs(middle - lower), np.abs(middle - upper)) ** 2, axis=1) + gap
    q = np.sum((x[:, None] - form.U) ** 2, axis=2)
    mean_low, size = relaxation(form.alpha, q[0], *data)
    mean_high, _ = relaxation(-form.alpha, q[1], *data)
    largest, size_of_pairs = relaxation(-R, q[2, i] + q[2, k], near, far)
    smallest, _ = relaxation(R, q[3, i] + q[3, k], near, far)
    variances = [max(0.0, s * (1 + largest)), min(s * form.bound, s * (1 - smallest))]
    return [s * mean_low, -s * mean_high, *variances], [s * size] * 2 + [s * size_of_pairs] * 2


@given(seed=st.integers(0, 10_000))
def test_candidates_attain_the_bounds_of_the_relaxations_in_their_boxes(seed: int) -> None:
    # The bounds hold for every point, so a point at which a relaxation takes its bound is its extremum.
    rng = np.random.default_rng(seed)
    posterior, x0, free = random_setting(rng, "squared_exponential", "probit", 7, 4, bool(seed % 2))
    bound = paper_bound(posterior, x0, free)
    half = 10.0 ** rng.uniform(-2.0, 0.3, (6, len(free))) * posterior.lengthscales[free]
    half[0, 0] = 0.0
    centre = x0[free] + 0.5 * rng.standard_normal(half.shape) * posterior.lengthscales[free]
    low, high = centre - half, centre + half
    points, scores = bound.candidates(low, high)
    assert points.shape == (6, 4, len(free))
    assert np.all((points >= low[:, None]) & (points <= high[:, None]))
    b = bound.bounds(low, high)
    for box in range(6):
        found, sizes = relaxed_moments(bound, low[box], high[box], points[box])
        proved = (b.mean_low[box], b.mean_high[box], b.variance_low[box], b.variance_high[box])
        assert np.all(np.abs(np.array(found) - proved) <= 1e-8 * np.array(sizes))
        mean, variance = Exact(posterior, x0, free)(points[box])
        expected = score_of(posterior.link).value(mean, variance)
        np.testing.assert_allclose(scores[box], expected, atol=1e-6)


def test_programs_offer_the_candidates_of_the_mean() -> None:
    posterior = random_posterior(np.random.default_rng(9), "squared_exponential", "probit", 6, 2)
    low, high = posterior.X[:3] - 0.2, posterior.X[:3] + 0.4
    quick, slow = (
        paper_bound(posterior, posterior.X[0], np.arange(2), variant).candidates(low, high)
        for variant in ("quick", "slow")
    )
    assert slow[0].shape == (3, 2, 2)
    np.testing.assert_array_equal(slow[0], quick[0][:, :2])
    np.testing.assert_array_equal(slow[1], quick[1][:, :2])


@pytest.mark.parametrize("far", [0.0, 30.0])
def test_pairs_allow_for_the_rounding_of_lines_and_slopes(far: float) -> None:
    """With a unit of 1e-5: four times that share of the lines' terms and of the slopes' reach; linear in the unit."""
    posterior = random_posterior(np.random.default_rng(9), "squared_exponential", "probit", 5, 2)
    form = paper_bound(posterior, posterior.X[0], np.arange(2)).form
    pairs = Pairs.of(form)
    centre, radius = form.X[:1] + far * form.lengthscales, np.full((1, 2), 0.5 + far)
    free, paid, more = (
        np.array(pair_variance(form, replace(pairs, unit=unit + 0 * pairs.unit, slack=slack), centre, radius))
        for unit, slack in ((0.0, 0.0), (1e-5, 0.0), (0.0, 1e-3))
    )
    np.testing.assert_allclose((free - more)[0], 1e-3, rtol=1e-6)
    np.testing.assert_allclose((more - free)[1], 1e-3, rtol=1e-6)
    at, (i, k) = form.scale(centre)[0], np.triu_indices(len(form.U))
    most, (tangent, chord) = pair_lines(pairs.U, at, radius[0])
    reach = 4.0 * (np.abs(form.U).max() + np.abs(at).max()) * radius.sum()
    farthest = np.sum((np.abs(pairs.U - at) + radius) ** 2, axis=1)
    size = chord[1] * (2.0 + 2.0 * (farthest[i] + farthest[k]) + reach)
    expected = 4e-5 * np.abs(pairs.weights[i, k]) @ size
    np.testing.assert_allclose(np.abs(paid - free)[:, 0], expected, rtol=1e-6)
    for line in (tangent, chord):
        assert np.all(line[0] + line[1] * (most + reach) <= size * (1 + 1e-12))


def test_pairs_widen_the_box_for_the_rounding_of_scaled_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight roundings of radius, centre and largest datum: the bound is that of the wider box."""
    posterior = random_posterior(np.random.default_rng(9), "squared_exponential", "probit", 5, 2)
    form = paper_bound(posterior, posterior.X[0], np.arange(2)).form
    pairs, centre, radius = (Pairs.of(form), form.X[:1] + [[3.0, -2.0]] * form.lengthscales, np.array([[0.4, 0.1]]))
    monkeypatch.setattr(pairs_module, "UNIT", 1e-4)
    rounded = pair_variance(form, pairs, centre, radius)
    monkeypatch.setattr(pairs_module, "UNIT", 0.0)
    wider = radius + 8e-4 * (radius + np.abs(form.scale(centre)) + np.abs(form.U).max())
    np.testing.assert_allclose(rounded, pair_variance(form, pairs, centre, wider), rtol=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("ball", [linf_ball, l2_ball])
def test_searches_with_candidates_stay_sound_and_need_fewer_boxes(ball, sign: int) -> None:
    posterior = fitted_posterior("laplace", "squared_exponential", LINKS.get("probit"))[0]
    region = ball([0.2, 0.1], 0.6)
    bound = paper_bound(posterior, region.centre, region.free)
    with_, without = (
        branch_and_bound(bound, region, 0.02, Budget(boxes=9000), sign, batch=2, candidates=candidates)
        for candidates in (bound.candidates, None)
    )
    points = region.project(np.random.default_rng(4).uniform(region.lower, region.upper, (2000, 2)))
    best = (sign * posterior.probability(points)).max()
    for found in (with_, without):
        assert found.status == "closed"
        assert found.witness is not None and region.contains(found.witness[None])[0]
        assert found.inner == pytest.approx(posterior.probability(found.witness[None])[0], abs=1e-9)
        assert best <= sign * found.outer
    assert with_.boxes <= without.boxes
    if ball is linf_ball:
        assert with_.boxes < without.boxes
