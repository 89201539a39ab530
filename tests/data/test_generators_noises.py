from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.data.generators import NOISES, draw_noise
from gpsuite.data.generators.sizes import as_shape
from tests.arrays import Array

N = 20_000
# A binomial count of N halves deviates by more than 5 sigma with probability below 1e-6.
FIVE_SIGMA = 5 * 0.5 / np.sqrt(N)
POSITIONS = np.linspace(-2.0, 2.0, 7)


def column(name: str, seed: int = 3) -> Array:
    """Return N repetitions of a noise vector of 7 points, at sorted inputs."""
    return draw_noise(np.random.default_rng(seed), name, (N, 7), inputs=POSITIONS)


@given(name=st.sampled_from(sorted(NOISES)), shape=st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_shape_type_and_determinism(name: str, shape: list[int]) -> None:
    size = tuple(shape)
    first, second = (draw_noise(np.random.default_rng(1), name, size, inputs=np.ones(size)) for _ in range(2))
    assert first.shape == size
    assert first.dtype == np.float64
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", sorted(set(NOISES) - {"zero"}))
def test_each_point_is_positive_half_the_time_only_if_symmetric(name: str) -> None:
    """Of the noises that break sign changes, only the shared shift has symmetric marginals."""
    share = (column(name) > 0).mean(axis=0)
    symmetric = NOISES[name].signs or name == "shared_shift"
    assert (np.abs(share - 0.5) < FIVE_SIGMA).all() == symmetric


@pytest.mark.parametrize("name", sorted(set(NOISES) - {"zero"}))
def test_the_stated_groups_leave_the_joint_distribution_unchanged(name: str) -> None:
    """Probabilities of events that a sign change, or a permutation, turns into each other."""
    noise = column(name)
    first, last = noise[:, 1], noise[:, -1]

    def same(event: Callable[..., Array], *changed: Array) -> bool:
        difference = event(first, last).astype(float) - event(*changed).astype(float)
        return bool(abs(difference.mean()) < 5 * difference.std() / np.sqrt(N) + 1e-12)

    def both_large(a: Array, b: Array) -> Array:
        return (a > 0.7) & (b > -0.3)

    def larger(a: Array, b: Array) -> Array:
        return np.abs(a) > np.abs(b)

    middle = noise[:, 3]
    assert same(both_large, -first, last) == NOISES[name].signs
    permuted = same(larger, last, first) and same(larger, middle, last) and same(both_large, last, middle)
    assert permuted == NOISES[name].permutations


@pytest.mark.parametrize(
    ("name", "mean", "variance"),
    [
        ("gaussian", 0.0, 1.0),
        ("laplace", 0.0, 2.0),
        ("bimodal", 0.0, 1.04),
        ("exponential_centred", 0.0, 1.0),
        ("gaussian_biased", 0.75, 1.0),
        ("shared_shift", 0.0, 2.0),
        ("lognormal_centred", 0.0, np.expm1(1.44) * np.exp(1.44)),
    ],
)
def test_mean_and_variance(name: str, mean: float, variance: float) -> None:
    """Within five standard errors of the mean (one point per repetition, so all are independent)."""
    values = column(name)[:, 0]
    assert abs(values.mean() - mean) < 5 * np.sqrt(variance / N)
    if name != "lognormal_centred":  # its fourth moment is too large for a useful bound
        spread = ((values - mean) ** 2).std() / np.sqrt(N)
        assert abs(((values - mean) ** 2).mean() - variance) < 5 * spread


def test_quartiles_of_heavy_tailed_noises() -> None:
    """Upper quartiles: Cauchy 1, t_2 sqrt(2/3), normal 0.67449; a share of 3/4 deviates by less than five sigma."""
    bound = 5 * np.sqrt(3 / 16 / N)
    assert abs((column("cauchy")[:, 0] < 1.0).mean() - 0.75) < bound
    lognormal = np.exp(1.2 * 0.67449) - np.exp(0.72)
    assert abs((column("lognormal_centred")[:, 0] < lognormal).mean() - 0.75) < bound
    scales = np.linspace(0.5, 1.5, 7)
    shares = (column("scaled_t2") < scales * np.sqrt(2 / 3)).mean(axis=0)
    assert (np.abs(shares - 0.75) < bound).all()


def test_heteroscedastic_noise_follows_the_inputs() -> None:
    spread = column("heteroscedastic").std(axis=0) / (0.1 + np.abs(POSITIONS))
    assert (np.abs(spread - 1.0) < 5 / np.sqrt(2 * N)).all()
    with pytest.raises(ValueError, match="depends on the inputs"):
        draw_noise(np.random.default_rng(0), "heteroscedastic", 3)


def test_bimodal_noise_avoids_zero_and_shared_shift_correlates() -> None:
    assert (np.abs(column("bimodal")) < 0.1).mean() < 1e-4
    correlation = np.corrcoef(column("shared_shift")[:, :2].T)[0, 1]
    assert abs(correlation - 0.5) < 5 * 0.75 / np.sqrt(N)


@given(scale=st.floats(0, 1e6))
def test_scale_is_a_factor(scale: float) -> None:
    one = draw_noise(np.random.default_rng(4), "laplace", (2, 3))
    np.testing.assert_array_equal(
        draw_noise(np.random.default_rng(4), "laplace", (2, 3), scale=scale), scale * one
    )


def test_wrong_arguments_are_refused() -> None:
    rng = np.random.default_rng(0)
    for scale in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="scale="):
            draw_noise(rng, "gaussian", 3, scale=scale)
    with pytest.raises(KeyError):
        draw_noise(rng, "gauss", 3)
    for size in ((), 0, (3, 0), (-1, 2)):
        with pytest.raises(ValueError, match="size="):
            as_shape(size)
