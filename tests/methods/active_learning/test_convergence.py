from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.data.generators.gp_samples import KERNELS, lmc_covariance
from gpsuite.methods.active_learning import convergence as c
from tests.arrays import Array

ROUNDING = 1e-9


def process(
    seed: int, kernel: str = "matern52", n: int = 25, P: int = 2, L: int = 2, D: int = 1
) -> tuple[Array, Array, float]:
    """Return a drawn process's covariance over a pool, noise variances and the bound of its prior variances."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, D))
    variances = rng.gamma(2.5, 1.0, L)
    latent = [KERNELS[kernel](X, X, v, length) for v, length in zip(variances, rng.gamma(1.5, 1.0, L), strict=True)]
    W = rng.normal(0.0, 2.0, (P, L))
    covariance = lmc_covariance(np.stack(latent), W).reshape(n * P, n * P)
    return covariance, rng.gamma(1.5, 1.0 / 3.0, P) + 1e-3, c.variance_bound(W, variances)


def posterior(covariance: Array, noise: Array, entries: Array) -> Array:
    """Return the covariance after observing entries, by one direct solve."""
    cross = covariance[:, entries]
    K = covariance[np.ix_(entries, entries)] + np.diag(noise[entries % len(noise)])
    return covariance - cross @ np.linalg.solve(K, cross.T)


drawn = given(
    seed=st.integers(0, 100_000),
    kernel=st.sampled_from(["matern52", "squared_exponential"]),
    P=st.integers(1, 3),
    L=st.integers(1, 3),
    D=st.integers(1, 2),
)


@drawn
def test_lemma_1_holds_for_single_and_for_all_outputs(seed: int, kernel: str, P: int, L: int, D: int) -> None:
    covariance, noise, largest = process(seed, kernel, P=P, L=L, D=D)
    single = c.query_single_outputs(covariance, noise, 40)
    assert single.violations(c.lemma_constant(largest, noise.max())) == 0
    whole = c.query_all_outputs(covariance, noise, 15)
    assert whole.violations(c.lemma_constant(largest, noise.max(), P)) == 0


@drawn
def test_information_by_log_determinant_equals_the_chain_rules(seed: int, kernel: str, P: int, L: int, D: int) -> None:
    covariance, noise, _ = process(seed, kernel, P=P, L=L, D=D)
    for run, each in (
        (c.query_single_outputs(covariance, noise, 20), 1),
        (c.query_all_outputs(covariance, noise, 8), P),
    ):
        for k in (1, len(run.information)):
            entries = run.entries[: k * each]
            direct = c.mutual_information(covariance[np.ix_(entries, entries)], noise[entries % P])
            assert run.information[k - 1] == pytest.approx(direct, rel=ROUNDING)


def test_a_violation_is_seen() -> None:
    """Lemma 1 rests on the choice of the largest variance: always the same input learns nothing of the others."""
    covariance, noise = np.eye(10), np.array([0.1])
    constant = c.lemma_constant(1.0, 0.1)
    run = c.query_single_outputs(covariance, noise, 50, OnlyOne(10, 3))
    assert run.violations(constant) == 0
    elsewhere = c.QueryRun(run.entries, np.ones(50), run.average, run.information, run.allowed)
    first = int(np.argmax(elsewhere.mean_maximal > elsewhere.bound(constant)))
    assert first > 0
    assert elsewhere.violations(constant) == 50 - first


class OnlyOne:
    """A region of one input."""

    def __init__(self, n: int, x: int) -> None:
        self.mask = np.arange(n) == x
        self.seen: list[int] = []

    def allowed(self) -> Array:
        return self.mask

    def observe(self, x: int) -> None:
        self.seen.append(x)


def test_each_query_has_the_largest_variance_of_the_direct_posterior() -> None:
    covariance, noise, _ = process(1, P=2)
    run = c.query_single_outputs(covariance, noise, 12)
    for k, entry in enumerate(run.entries):
        variance = np.diagonal(posterior(covariance, noise, run.entries[:k]))
        assert variance[entry] == pytest.approx(variance.max(), rel=ROUNDING)
        assert run.maximal[k] == pytest.approx(variance.max(), rel=ROUNDING)
        assert run.average[k] == pytest.approx(variance.mean(), rel=ROUNDING)
    np.testing.assert_allclose(run.mean_maximal[2], run.maximal[:3].mean())


def test_each_full_query_has_the_largest_determinant_of_the_direct_posterior() -> None:
    covariance, noise, _ = process(2, P=3, L=3)
    run = c.query_all_outputs(covariance, noise, 6)
    for k, entries in enumerate(run.entries.reshape(6, 3)):
        after = posterior(covariance, noise, run.entries[: 3 * k]).reshape(25, 3, 25, 3)
        determinants = np.array([np.linalg.det(after[x, :, x]) for x in range(25)])
        assert entries.tolist() == [3 * (entries[0] // 3) + p for p in range(3)]
        # determinants are differences of products: relative to the largest prior one
        tolerance = 1e-9 * determinants.max() + 1e-12
        assert determinants[entries[0] // 3] == pytest.approx(determinants.max(), abs=tolerance)
        assert run.maximal[k] == pytest.approx(determinants.max(), abs=tolerance)
        assert run.average[k] == pytest.approx(determinants.mean(), abs=tolerance)


def test_queries_stay_in_their_region() -> None:
    covariance, noise, _ = process(3)
    for query in (c.query_single_outputs, c.query_all_outputs):
        region = OnlyOne(25, 7)
        run = query(covariance, noise, 5, region)
        assert set(run.entries // 2) == {7}
        assert region.seen == [7] * 5
        np.testing.assert_allclose(run.allowed, 1 / 25)
        with pytest.raises(c.NothingAllowedError):
            query(covariance, noise, 5, OnlyOne(25, 30))


def test_the_safe_region_is_the_posterior_one_and_grows() -> None:
    rng = np.random.default_rng(4)
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    covariance = KERNELS["squared_exponential"](X, X, 1.0, 0.5)
    h = 1.0 - X[:, 0] ** 2
    measured = {x: float(h[x] + 0.05 * rng.standard_normal()) for x in (20, 15, 30)}
    region = c.SafeRegion(covariance, 0.05**2, measured.__getitem__, 0.2, 0.05, 3)
    assert not region.allowed().any()
    sizes = []
    for x in measured:
        region.observe(x)
        sizes.append(int(region.allowed().sum()))
    at = np.array(list(measured))
    K = covariance[np.ix_(at, at)] + 0.05**2 * np.eye(3)
    mean = covariance[:, at] @ np.linalg.solve(K, np.array(list(measured.values())))
    variance = np.diagonal(covariance - covariance[:, at] @ np.linalg.solve(K, covariance[at]))
    expected = mean - 1.6448536269514722 * np.sqrt(variance) > 0.2
    assert region.allowed().tolist() == expected.tolist()
    assert 0 < sizes[0] < sizes[2] < 40


def test_the_greedy_gain_is_within_its_share_of_the_best_subset() -> None:
    covariance, noise, _ = process(5, n=9, P=1)
    gain = c.information_gain(covariance, float(noise[0]), 3)
    for k in (1, 2, 3):
        best = max(
            c.mutual_information(covariance[np.ix_(s, s)], np.full(k, noise[0]))
            for s in map(list, itertools.combinations_with_replacement(range(9), k))
        )
        assert c.GREEDY_SHARE * best <= gain[k - 1] <= best * (1.0 + ROUNDING)


@drawn
def test_information_is_below_the_outputs_summed_gains(seed: int, kernel: str, P: int, L: int, D: int) -> None:
    """Fischer's inequality: information of all outputs at most the sum of each one's."""
    covariance, noise, _ = process(seed, kernel, P=P, L=L, D=D)
    for run in (c.query_single_outputs(covariance, noise, 15), c.query_all_outputs(covariance, noise, 6)):
        summed = c.summed_information_gain(covariance, noise, run)
        assert (c.GREEDY_SHARE * run.information <= summed * (1.0 + ROUNDING)).all()


def test_for_one_output_the_gain_is_the_run_itself() -> None:
    covariance, noise, _ = process(6, P=1)
    run = c.query_single_outputs(covariance, noise, 10)
    np.testing.assert_allclose(c.summed_information_gain(covariance, noise, run), run.information)


def test_constants_of_the_lemma_are_right() -> None:
    assert c.variance_bound(np.array([[1.0, -2.0], [0.5, 0.0]]), np.array([1.0, 3.0])) == 2 * 4 * 3
    assert c.lemma_constant(2.0, 0.5) == pytest.approx(2.0 / np.log(5.0))
    assert c.lemma_constant(2.0, 0.5, outputs=3) == pytest.approx(8.0 / np.log(65.0))
    assert c.lemma_constant(1e-9, 0.5) == pytest.approx(0.5)  # the limit that the paper notes: psi


def test_rates_of_the_theorems_are_right() -> None:
    n = np.array([10.0, 1000.0])
    np.testing.assert_allclose(c.rate("matern52", 1, n), n ** (-5 / 7) * np.log(n))
    np.testing.assert_allclose(c.rate("matern52", 2, n), n ** (-5 / 11) * np.log(n))
    for kernel in ("se", "convolution"):
        np.testing.assert_allclose(c.rate(kernel, 2, n), np.log(n) ** 3 / n)


def test_slopes_of_known_powers_are_right() -> None:
    at = c.slope_points(10, 1000)
    assert at[0] == 10
    assert at[-1] == 1000
    assert (np.diff(at) > 0).all()
    n = at.astype(np.float64)
    assert c.log_slope(n, 3.0 * n**-0.7) == pytest.approx(-0.7)
