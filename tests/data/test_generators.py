"""The papers' generated data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.data.generators import (
    FUNCTIONS,
    KERNELS,
    NOISES,
    ConvolutionParameters,
    GpSamples,
    LmcParameters,
    Sizes,
    convolution_covariance,
    draw_noise,
    exploration_grid,
    gp_samples,
    initial_inputs,
    kernel_regression,
    lmc_covariance,
    lssvm_classes,
    matern52,
    sample_gaussian,
    sin_sigmoid,
    squared_exponential,
    squared_exponential_paper,
    synthetic2d,
)
from gpsuite.data.generators.regression import as_shape
from gpsuite.data.generators.sin_sigmoid import Form, true_outputs, true_safety
from tests.arrays import Array


def test_synthetic2d_has_the_papers_size_and_balance() -> None:
    sample = synthetic2d(np.random.default_rng(0))
    assert sample.X.shape == (1200, 2)
    assert (sample.y[:600] == 1.0).all()
    assert (sample.y[600:] == -1.0).all()


@given(half=st.integers(1, 8), repetitions=st.integers(1, 4), seed=st.integers(0, 99))
def test_synthetic2d_is_standardised_in_every_repetition(half: int, repetitions: int, seed: int) -> None:
    sample = synthetic2d(np.random.default_rng(seed), (repetitions, 2 * half))
    assert sample.X.shape == (repetitions, 2 * half, 2)
    assert sample.y.shape == (repetitions, 2 * half)
    np.testing.assert_allclose(sample.X.mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(sample.X.std(axis=1, ddof=1), 1.0, rtol=1e-12)
    assert (sample.y.sum(axis=1) == 0).all()


def test_synthetic2d_classes_are_normals_shifted_by_five() -> None:
    raw = synthetic2d(np.random.default_rng(1), (50, 400), standardise=False)
    n = 50 * 200
    for label, centre in ((1.0, (5.0, 0.0)), (-1.0, (0.0, 5.0))):
        points = raw.X[raw.y == label]
        assert len(points) == n
        assert (np.abs(points.mean(axis=0) - centre) < 5 / np.sqrt(n)).all()
        # entries of a sample covariance of unit normals have standard errors of at most sqrt(2 / n)
        assert (np.abs(np.cov(points.T) - np.eye(2)) < 5 * np.sqrt(2 / n)).all()
    scaled = synthetic2d(np.random.default_rng(1), (50, 400))
    back = raw.X.std(axis=1, ddof=1, keepdims=True) * scaled.X + raw.X.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(back, raw.X, rtol=1e-12, atol=1e-12)


def test_synthetic2d_needs_an_even_number() -> None:
    with pytest.raises(ValueError, match="even"):
        synthetic2d(np.random.default_rng(0), 5)


@given(n=st.integers(1, 9), repetitions=st.integers(1, 3))
def test_lssvm_classes_are_balanced_and_sorted(n: int, repetitions: int) -> None:
    sample = lssvm_classes(np.random.default_rng(0), (repetitions, n), location=(1.0, 0.0, -2.0))
    assert sample.X.shape == (repetitions, n, 3)
    assert set(np.unique(sample.y)) <= {-1.0, 1.0}
    assert (sample.y.sum(axis=1) == n % 2).all()
    assert (np.diff(sample.y, axis=1) <= 0).all()


def test_lssvm_classes_are_laplace_and_mirror_images() -> None:
    sample = lssvm_classes(np.random.default_rng(2), (100, 200), scale=0.5)
    n = 100 * 100
    for label in (1.0, -1.0):
        deviations = sample.X[sample.y == label] - label * np.array([1.0, 0.5])
        # medians: the share below is one half; |e| is exponential with mean and deviation 0.5, above it for 1/e
        assert (np.abs((deviations < 0).mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(n)).all()
        assert (np.abs(np.abs(deviations).mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(n)).all()
        tail = np.exp(-1.0)
        shares = (np.abs(deviations) > 0.5).mean(axis=0)
        assert (np.abs(shares - tail) < 5 * np.sqrt(tail * (1 - tail) / n)).all()


def test_lssvm_classes_refuse_a_scale_that_is_not_positive() -> None:
    with pytest.raises(ValueError, match="scale=0"):
        lssvm_classes(np.random.default_rng(0), 4, scale=0.0)


def test_the_same_generator_state_gives_the_same_data() -> None:
    for draw in (synthetic2d, lssvm_classes):
        first, second = draw(np.random.default_rng(5), 10), draw(np.random.default_rng(5), 10)
        np.testing.assert_array_equal(first.X, second.X)
        assert not np.array_equal(first.X, draw(np.random.default_rng(6), 10).X)


POINTS = np.array([[0.0, 0.0], [3.0, 4.0], [0.3, -0.4]])


def small(seed: int = 0, **changes: Any) -> GpSamples:
    form = {name: changes.pop(name) for name in ("kernel", "process") if name in changes}
    sizes = Sizes(**{"draws": 2, "n_train": 30, "n_test": 10, **changes})
    return gp_samples(np.random.default_rng(seed), sizes, **form)


def test_kernels_have_their_values_at_known_distances() -> None:
    """Distances 5 and 0.5 from the first point."""
    r = np.array([0.0, 5.0, 0.5])
    rows = {name: kernel(POINTS[:1], POINTS, 2.0, 0.8)[0] for name, kernel in KERNELS.items()}
    a = np.sqrt(5) * r / 0.8
    np.testing.assert_allclose(rows["squared_exponential"], 2 * np.exp(-(r**2) / 1.28), rtol=1e-13)
    np.testing.assert_allclose(rows["squared_exponential_paper"], 2 * np.exp(-(r**2) / 0.8), rtol=1e-13)
    np.testing.assert_allclose(rows["matern52"], 2 * (1 + a + a * a / 3) * np.exp(-a), rtol=1e-13)


@given(lengthscale=st.floats(0.05, 5.0))
def test_the_two_forms_agree_after_a_change_of_lengthscale(lengthscale: float) -> None:
    """exp(-r^2 / rho) is exp(-r^2 / (2 l^2)) with rho = 2 l^2."""
    np.testing.assert_allclose(
        squared_exponential_paper(POINTS, POINTS, 1.0, 2 * lengthscale**2),
        squared_exponential(POINTS, POINTS, 1.0, lengthscale),
        rtol=1e-12,
    )


def test_lmc_covariance_matches_its_entries_one_by_one() -> None:
    W = np.random.default_rng(0).standard_normal((4, 2))
    latent = np.stack([matern52(POINTS, POINTS[:2], 1.0, lengthscale) for lengthscale in (0.5, 2.0)])
    covariance = lmc_covariance(latent, W)
    assert covariance.shape == (3, 4, 2, 4)
    expected = sum(W[3, k] * W[1, k] * latent[k, 2, 0] for k in range(2))
    assert covariance[2, 3, 0, 1] == pytest.approx(expected, rel=1e-13)


def test_convolution_covariance_matches_numerical_integration() -> None:
    """In one dimension: the double integral of both smoothings against the latent covariance."""
    precision, latent, weights = np.array([4.0, 9.0]), 2.0, np.array([0.7, -1.3])
    u = np.linspace(-6, 6, 1201)
    step = u[1] - u[0]

    def normal(x: Array, inverse_variance: float) -> Array:
        values: Array = np.sqrt(inverse_variance / 2 / np.pi) * np.exp(-0.5 * inverse_variance * x**2)
        return values

    x, x2, c = 0.4, -0.3, 1.7
    smooth = [normal(point - u, a) for point, a in zip((x, x2), precision, strict=True)]
    inner = c * normal(u[:, None] - u[None, :], latent)
    expected = weights[0] * weights[1] * smooth[0] @ inner @ smooth[1] * step**2
    found = convolution_covariance(
        np.array([[x]]),
        np.array([[x2]]),
        precision[:, None, None],
        np.array([[[latent]]]),
        weights[:, None],
        np.array([c]),
    )
    assert found[0, 0, 0, 1] == pytest.approx(expected, rel=1e-9)


def test_convolution_covariance_with_full_matrices_is_a_covariance() -> None:
    rng = np.random.default_rng(1)
    roots = rng.standard_normal((5, 2, 2))
    precisions = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(2)
    W, X = rng.standard_normal((3, 2)), rng.uniform(-2, 2, (6, 2))
    K = convolution_covariance(X, X, precisions[:3], precisions[3:], W, np.array([1.0, 2.0])).reshape(18, 18)
    np.testing.assert_allclose(K, K.T, rtol=1e-12, atol=1e-15)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_samples_have_the_covariance() -> None:
    """Entries of a sample covariance of n draws: standard error at most sqrt(2 / n) for unit variances."""
    n = 20_000
    K = squared_exponential(POINTS, POINTS, 1.0, 0.5)
    draws = sample_gaussian(np.random.default_rng(2), K, n)
    assert draws.shape == (n, 3)
    assert (np.abs(draws.T @ draws / n - K) < 5 * np.sqrt(2 / n)).all()
    assert (np.abs(draws.mean(axis=0)) < 5 / np.sqrt(n)).all()


def test_singular_covariances_can_be_sampled_and_indefinite_ones_not() -> None:
    X = np.linspace(0, 1, 300)[:, None]
    draws = sample_gaussian(np.random.default_rng(3), squared_exponential(X, X, 4.0, 1.0), 1)
    assert np.abs(np.diff(draws, 3)).max() < 4.0 * 2e-3  # smooth but for the jitter, 1e-4 of the deviation
    with pytest.raises(np.linalg.LinAlgError):
        sample_gaussian(np.random.default_rng(3), np.diag([1.0, -1.0]), 1)


def test_samples_have_the_papers_shapes_and_parameters() -> None:
    samples = small()
    data = samples.data
    assert data.X.shape == (40, 2)
    assert data.F.shape == data.Y.shape == (2, 40, 4)
    assert data.h.shape == data.z.shape == (2, 40)
    assert data.X.min() >= -2
    assert data.X.max() < 2
    assert isinstance(samples.parameters, LmcParameters)
    np.testing.assert_allclose((samples.parameters.W**2).sum(axis=1), 1.0, rtol=1e-14)
    assert samples.parameters.W.shape == (4, 3)


def test_random_parameters_fill_their_ranges() -> None:
    many = [small(seed, draws=1, n_train=1, n_test=0) for seed in range(300)]
    lengthscales = np.concatenate([one.parameters.lengthscales for one in many])
    for values in (lengthscales, np.array([one.safety_variance for one in many])):
        assert values.min() >= 0.01
        assert values.max() < 1.0
        assert abs((values < 0.505).mean() - 0.5) < 5 * 0.5 / np.sqrt(len(values))


@pytest.mark.parametrize("process", ["lmc", "convolution"])
def test_threshold_leaves_a_fifth_of_all_noisy_safety_values_below(process: str) -> None:
    data = small(process=process, draws=5).data
    assert (data.z < data.threshold).sum() == 0.2 * data.z.size
    assert data.threshold == np.quantile(data.z, 0.2)


def test_the_samples_have_the_stated_noise() -> None:
    data = small(draws=50).data
    for noise, deviation in ((data.Y - data.F, 0.4), (data.z - data.h, 0.05)):
        assert abs(noise.std() / deviation - 1) < 5 / np.sqrt(2 * noise.size)


@pytest.mark.parametrize("process", ["lmc", "convolution"])
def test_outputs_have_the_covariance_of_their_parameters(process: str) -> None:
    """All entries of the covariance of 4 points x 2 outputs over 20,000 draws, within five standard errors."""
    n = 20_000
    samples = small(draws=n, n_train=4, n_test=0, n_outputs=2, n_latent=2, process=process)
    X, parameters = samples.data.X, samples.parameters
    if isinstance(parameters, ConvolutionParameters):
        K = convolution_covariance(X, X, parameters.A, parameters.Lambda, parameters.W, parameters.c)
    else:
        latent = [squared_exponential(X, X, 1.0, lengthscale) for lengthscale in parameters.lengthscales]
        K = lmc_covariance(np.stack(latent), parameters.W)
    K = K.reshape(8, 8)
    F = samples.data.F.reshape(n, 8)
    error = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / n)
    assert (np.abs(F.T @ F / n - K) < 5 * error).all()
    safety = samples.data.h.var(axis=0) / samples.safety_variance
    assert (np.abs(safety - 1) < 5 * np.sqrt(2 / n)).all()


def test_convolution_outputs_have_unit_variance_on_average() -> None:
    """As in the linear model, whose outputs have variance 1 each."""
    parameters = small(process="convolution", draws=1, n_outputs=5).parameters
    assert isinstance(parameters, ConvolutionParameters)
    x = np.zeros((1, 2))
    K = convolution_covariance(x, x, parameters.A, parameters.Lambda, parameters.W, parameters.c)
    assert np.trace(K.reshape(5, 5)) == pytest.approx(5.0, rel=1e-12)


@pytest.mark.parametrize("process", ["lmc", "convolution"])
def test_fewer_draws_are_the_first_ones(process: str) -> None:
    few, many = small(3, process=process).data, small(3, process=process, draws=4).data
    np.testing.assert_array_equal(few.X, many.X)
    for name in ("F", "Y", "h", "z"):
        np.testing.assert_allclose(getattr(few, name), getattr(many, name)[:2], atol=1e-12)


def test_a_second_call_gives_another_sample() -> None:
    rng = np.random.default_rng(7)
    first, second = (gp_samples(rng, Sizes(1, 5, 0)) for _ in range(2))
    assert not np.array_equal(first.data.X, second.data.X)
    np.testing.assert_array_equal(small(7).data.z, small(7).data.z)


def test_kernel_forms_give_different_functions_of_the_same_parameters() -> None:
    code, paper = small(), small(kernel="squared_exponential_paper")
    np.testing.assert_array_equal(code.data.X, paper.data.X)
    assert np.abs(code.data.F - paper.data.F).max() > 0.01
    with pytest.raises(KeyError):
        small(kernel="rbf")
    with pytest.raises(ValueError, match="process=icm"):
        small(process="icm")


MANY = 20_000
# A binomial count of MANY halves deviates by more than 5 sigma with probability below 1e-6.
FIVE_SIGMA = 5 * 0.5 / np.sqrt(MANY)
POSITIONS = np.linspace(-2.0, 2.0, 7)


def noise_column(name: str, seed: int = 3) -> Array:
    """Return MANY repetitions of a noise vector of 7 points, at sorted inputs."""
    return draw_noise(np.random.default_rng(seed), name, (MANY, 7), inputs=POSITIONS)


@given(name=st.sampled_from(sorted(NOISES)), shape=st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_noise_has_its_shape_and_type_and_follows_the_seed(name: str, shape: list[int]) -> None:
    size = tuple(shape)
    first, second = (draw_noise(np.random.default_rng(1), name, size, inputs=np.ones(size)) for _ in range(2))
    assert first.shape == size
    assert first.dtype == np.float64
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", sorted(set(NOISES) - {"zero"}))
def test_each_point_is_positive_half_the_time_only_if_symmetric(name: str) -> None:
    """Of the noises that break sign changes, only the shared shift has symmetric marginals."""
    share = (noise_column(name) > 0).mean(axis=0)
    symmetric = NOISES[name].signs or name == "shared_shift"
    assert (np.abs(share - 0.5) < FIVE_SIGMA).all() == symmetric


@pytest.mark.parametrize("name", sorted(set(NOISES) - {"zero"}))
def test_the_stated_groups_leave_the_joint_distribution_unchanged(name: str) -> None:
    """Probabilities of events that a sign change, or a permutation, turns into each other."""
    noise = noise_column(name)
    first, last = noise[:, 1], noise[:, -1]

    def same(event: Callable[..., Array], *changed: Array) -> bool:
        difference = event(first, last).astype(float) - event(*changed).astype(float)
        return bool(abs(difference.mean()) < 5 * difference.std() / np.sqrt(MANY) + 1e-12)

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
def test_mean_and_variance_of_each_noise_are_right(name: str, mean: float, variance: float) -> None:
    """Within five standard errors of the mean (one point per repetition, so all are independent)."""
    values = noise_column(name)[:, 0]
    assert abs(values.mean() - mean) < 5 * np.sqrt(variance / MANY)
    if name != "lognormal_centred":  # its fourth moment is too large for a useful bound
        spread = ((values - mean) ** 2).std() / np.sqrt(MANY)
        assert abs(((values - mean) ** 2).mean() - variance) < 5 * spread


def test_quartiles_of_heavy_tailed_noises_are_right() -> None:
    """Upper quartiles: Cauchy 1, t_2 sqrt(2/3), normal 0.67449; a share of 3/4 deviates by less than five sigma."""
    bound = 5 * np.sqrt(3 / 16 / MANY)
    assert abs((noise_column("cauchy")[:, 0] < 1.0).mean() - 0.75) < bound
    lognormal = np.exp(1.2 * 0.67449) - np.exp(0.72)
    assert abs((noise_column("lognormal_centred")[:, 0] < lognormal).mean() - 0.75) < bound
    scales = np.linspace(0.5, 1.5, 7)
    shares = (noise_column("scaled_t2") < scales * np.sqrt(2 / 3)).mean(axis=0)
    assert (np.abs(shares - 0.75) < bound).all()


def test_heteroscedastic_noise_follows_the_inputs() -> None:
    spread = noise_column("heteroscedastic").std(axis=0) / (0.1 + np.abs(POSITIONS))
    assert (np.abs(spread - 1.0) < 5 / np.sqrt(2 * MANY)).all()
    with pytest.raises(ValueError, match="depends on the inputs"):
        draw_noise(np.random.default_rng(0), "heteroscedastic", 3)


def test_bimodal_noise_avoids_zero_and_shared_shift_correlates() -> None:
    assert (np.abs(noise_column("bimodal")) < 0.1).mean() < 1e-4
    correlation = np.corrcoef(noise_column("shared_shift")[:, :2].T)[0, 1]
    assert abs(correlation - 0.5) < 5 * 0.75 / np.sqrt(MANY)


@given(scale=st.floats(0, 1e6))
def test_scale_is_a_factor(scale: float) -> None:
    one = draw_noise(np.random.default_rng(4), "laplace", (2, 3))
    np.testing.assert_array_equal(draw_noise(np.random.default_rng(4), "laplace", (2, 3), scale=scale), scale * one)


def test_wrong_scales_of_noise_are_refused() -> None:
    rng = np.random.default_rng(0)
    for scale in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="scale="):
            draw_noise(rng, "gaussian", 3, scale=scale)
    with pytest.raises(KeyError):
        draw_noise(rng, "gauss", 3)
    for size in ((), 0, (3, 0), (-1, 2)):
        with pytest.raises(ValueError, match="size="):
            as_shape(size)


@given(
    function=st.sampled_from(sorted(FUNCTIONS)),
    noise=st.sampled_from(sorted(NOISES)),
    n=st.integers(1, 6),
    repetitions=st.integers(1, 4),
)
def test_samples_hold_the_exact_function_values(function: str, noise: str, n: int, repetitions: int) -> None:
    sample = kernel_regression(
        np.random.default_rng(0), (repetitions, n), function=function, noise=noise, domain=(-3.0, 3.0)
    )
    assert sample.X.shape == (repetitions, n, 1)
    assert sample.y.shape == sample.f.shape == (repetitions, n)
    assert (np.abs(sample.X) <= 3.0).all()
    np.testing.assert_array_equal(sample.f, FUNCTIONS[function](sample.X[..., 0]))
    if noise == "zero":
        np.testing.assert_array_equal(sample.y, sample.f)


def test_inputs_are_uniform_and_noise_has_its_scale() -> None:
    sample = kernel_regression(np.random.default_rng(1), (100, 200))
    n = sample.y.size
    inputs = sample.X
    below = (inputs < np.array([-1.0, 0.0, 1.0])).mean(axis=(0, 1))
    assert (np.abs(below - [0.25, 0.5, 0.75]) < 5 * 0.5 / np.sqrt(n)).all()
    assert abs(np.abs(sample.y - sample.f).mean() - 0.3) < 5 * 0.3 / np.sqrt(n)


def test_every_repetition_has_inputs_of_its_own() -> None:
    sample = kernel_regression(np.random.default_rng(1), (3, 4))
    assert np.unique(sample.X).size == 12


def test_heteroscedastic_noise_uses_the_drawn_inputs() -> None:
    sample = kernel_regression(np.random.default_rng(2), 20_000, noise="heteroscedastic", noise_scale=2.0)
    standard = (sample.y - sample.f) / (2.0 * (0.1 + np.abs(sample.X[:, 0])))
    assert abs(standard.std() - 1.0) < 5 / np.sqrt(2 * 20_000)


def test_a_function_of_ones_own_gives_the_true_values() -> None:
    sample = kernel_regression(np.random.default_rng(4), (2, 5), function=np.exp)
    np.testing.assert_array_equal(sample.f, np.exp(sample.X[..., 0]))


def test_wrong_arguments_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="domain"):
        kernel_regression(rng, 3, domain=(1.0, 1.0))
    with pytest.raises(KeyError):
        kernel_regression(rng, 3, function="tan")


@given(x=st.floats(-50, 50))
def test_the_sigmoids_of_paper_and_code_differ_in_steepness(x: float) -> None:
    """The sum and difference of the outputs undo the formula; s = 2 at x is s = 1 at 2x."""
    for form, steepness in (("paper", 2.0), ("code", 1.0)):
        first, second = true_outputs(np.array(x), form)  # type: ignore[arg-type]
        assert first + second == pytest.approx(2 * np.sin(10 * x), abs=1e-12)
        assert first - second == pytest.approx(1 + np.tanh(steepness * x / 2), abs=1e-12)


def test_safe_inputs_are_the_papers_interval() -> None:
    """Between 0.1 -+ sqrt(-2 log 0.7), 84 of the 200 points of the grid."""
    x = exploration_grid()[:, 0]
    assert (x[0], x[-1], len(x)) == (-2.0, 2.0, 200)
    safe = true_safety(x) > 0.7
    assert safe.sum() == 84
    half = np.sqrt(-2 * np.log(0.7))
    np.testing.assert_array_equal(safe, (x > 0.1 - half) & (x < 0.1 + half))
    assert (round(0.1 - half, 2), round(0.1 + half, 2)) == (-0.74, 0.94)


def test_starting_inputs_are_safe() -> None:
    X = initial_inputs(np.random.default_rng(0), (200, 12))
    assert X.shape == (200, 12, 1)
    assert np.abs(X).max() <= 0.6
    assert true_safety(X).min() > 0.78
    assert abs((X > 0).mean() - 0.5) < 5 * 0.5 / np.sqrt(2400)


@pytest.mark.parametrize("form", ["paper", "code"])
def test_noise_levels_of_the_samples_are_those_of_the_paper(form: Form) -> None:
    sample = sin_sigmoid(np.random.default_rng(1), exploration_grid(), form=form, repetitions=(50,))
    assert sample.Y.shape == (50, 200, 2)
    assert sample.z.shape == (50, 200)
    assert sample.F.shape == (200, 2)
    assert sample.threshold == 0.7
    for noise, deviation in (((sample.Y - sample.F)[..., 0], 0.4), (sample.z - sample.h, 0.05)):
        assert abs(noise.mean()) < 5 * deviation / np.sqrt(noise.size)
        assert abs(noise.std() / deviation - 1) < 5 / np.sqrt(2 * noise.size)
    first, second = (sample.Y - sample.F).reshape(-1, 2).T
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(10_000)


def test_forms_share_the_noise_and_inputs_may_differ_per_repetition() -> None:
    X = initial_inputs(np.random.default_rng(2), (3, 5))
    paper = sin_sigmoid(np.random.default_rng(3), X)
    code = sin_sigmoid(np.random.default_rng(3), X, form="code")
    assert paper.Y.shape == (3, 5, 2)
    np.testing.assert_allclose(paper.Y - paper.F, code.Y - code.F, atol=1e-14)
    np.testing.assert_array_equal(paper.z, code.z)
    assert np.abs(paper.F - code.F).max() > 0.01


def test_inputs_must_be_one_column() -> None:
    for X in (np.zeros(3), np.zeros((3, 2))):
        with pytest.raises(ValueError, match="N, 1"):
            sin_sigmoid(np.random.default_rng(0), X)
