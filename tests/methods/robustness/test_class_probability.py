"""Exact ranges of the class probability over rectangles of (mean, variance), and the cells of the baseline."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy.special import ndtr

from gpsuite.methods.robustness.class_probability import LatentRanges, ProbitScore, probability_bounds, score_of
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import cell_mass_bounds, cell_probability_bounds
from gpsuite.models.classification.links import LINKS
from tests.arrays import Array
from tests.methods.robustness.made_up_posteriors import LINK_NAMES

Pair = tuple[Array, Array]


def rectangles(seed: int, count: int = 40) -> tuple[Pair, Pair]:
    rng = np.random.default_rng(seed)
    mean = np.sort(rng.standard_normal((2, count)) * 10.0 ** rng.uniform(-2, 1.5, count), axis=0)
    variance = np.sort(rng.random((2, count)) * 10.0 ** rng.uniform(-3, 2.5, count), axis=0)
    variance[0, :3] = 0.0
    return (mean[0], mean[1]), (variance[0], variance[1])


def inside(pair: Pair, seed: int) -> Array:
    share = np.random.default_rng(seed).random((200, len(pair[0])))
    share[:100] = np.round(share[:100])
    return pair[0] + share * (pair[1] - pair[0])


def test_cells_give_probabilities_where_everything_is_sure() -> None:
    mean, variance = np.array([50.0, -50.0]), np.ones(2)
    low, high = cell_probability_bounds(LINKS.get("probit"), (mean, mean), (variance, variance), 60)
    assert high[0] == 1.0 and low[1] == 0.0
    ends = cell_probability_bounds(LINKS.get("probit"), (mean - 9, mean + 9), (variance, 9 * variance), 60)  # type: ignore[arg-type]
    assert ends[1][0] == 1.0 and ends[0][1] == 0.0
    assert low[0] > 0.9 and high[1] < 0.1


@pytest.mark.parametrize("name", LINK_NAMES)
def test_closed_form_is_the_exact_range(name: str) -> None:
    link, (mean, variance) = LINKS.get(name), rectangles(1)
    low, high = probability_bounds(link, mean, variance)
    values = link.probability(inside(mean, 1), inside(variance, 2))
    assert np.all(low <= values.min(axis=0))
    assert np.all(high >= values.max(axis=0))
    # The samples hold the corners, where the extremes are.
    np.testing.assert_allclose(low, values.min(axis=0), atol=3e-12)
    np.testing.assert_allclose(high, values.max(axis=0), atol=3e-12)


def test_links_choose_their_score() -> None:
    t = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(score_of(LINKS.get("probit")).to_probability(t), ndtr(t), rtol=1e-15)
    squeezed = score_of(LINKS.get("squeezed_probit")).to_probability(t)
    np.testing.assert_allclose(squeezed, 1e-3 + (1.0 - 2e-3) * ndtr(t), rtol=1e-14)
    np.testing.assert_array_equal(score_of(LINKS.get("logistic")).to_probability(t), [0.0, 0.0, 1.0])


@pytest.mark.parametrize("name", LINK_NAMES)
def test_cells_enclose_the_exact_range_and_approach_it(name: str) -> None:
    link, (mean, variance) = LINKS.get(name), rectangles(3)
    low, high = probability_bounds(link, mean, variance)
    cells_low, cells_high = cell_probability_bounds(link, mean, variance, 60)
    assert np.all(cells_low <= low + 1e-11)
    assert np.all(cells_high >= high - 1e-11)
    point = ((mean[0], mean[0]), (variance[1], variance[1]))
    exact = link.probability(mean[0], variance[1])
    previous = np.inf
    for n_cells in (50, 200, 800):
        cells_low, cells_high = cell_probability_bounds(link, *point, n_cells)
        assert np.all((cells_low <= exact + 1e-11) & (exact <= cells_high + 1e-11))
        assert (cells_high - cells_low).max() < 0.5 * previous
        previous = (cells_high - cells_low).max()


def test_masses_of_cells_are_exact_with_unbounded_ends() -> None:
    mean, variance = (np.array([-0.5]), np.array([1.5])), (np.array([0.2]), np.array([2.0]))
    edges = np.array([-3.0, -1.0, 0.0, 0.4, 2.0])
    a, b = np.append(-np.inf, edges)[None], np.append(edges, np.inf)[None]
    low, high = cell_mass_bounds(a, b, mean, variance)
    m, v = np.meshgrid(np.linspace(-0.5, 1.5, 801), np.linspace(0.2, 2.0, 801))
    for i in range(a.shape[1]):
        mass = ndtr((b[0, i] - m) / np.sqrt(v)) - ndtr((a[0, i] - m) / np.sqrt(v))
        assert low[0, i] == pytest.approx(mass.min(), abs=1e-5)
        assert high[0, i] == pytest.approx(mass.max(), abs=1e-5)


def test_a_certain_latent_value_counts_in_its_cell_only() -> None:
    at, sure = (np.array([0.5]), np.array([0.5])), (np.zeros(1), np.zeros(1))
    a, b = np.array([[-np.inf, 0.0, 1.0]]), np.array([[0.0, 1.0, np.inf]])
    low, high = cell_mass_bounds(a, b, at, sure)
    np.testing.assert_array_equal(low, [[0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(high, [[0.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match="n_cells"):
        cell_probability_bounds(LINKS.get("probit"), at, sure, 1)


def test_scores_of_known_moments_are_rounded_outwards() -> None:
    rng = np.random.default_rng(5)
    mean, variance = rng.standard_normal(200), rng.random(200) * 10.0 ** rng.uniform(-3, 3, 200)
    low, high = ProbitScore().separate(LatentRanges(mean, mean, variance, variance, mean, variance))
    for m, v, least, most in zip(*(each.tolist() for each in (mean, variance, low, high)), strict=True):
        exact = Decimal(m) / (1 + Decimal(v)).sqrt()
        assert Decimal(least) < exact < Decimal(most)
