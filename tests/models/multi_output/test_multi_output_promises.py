"""What both multi-output models promise: priors by name, undefined slopes, blocks of work, order of observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gpsuite.models.multi_output.convolution import SMOOTHING_PRIOR, ConvolutionProcess
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import ContradictionError, Observations
from gpsuite.models.sampling.priors import Gamma, HyperPriors, Normal
from tests.arrays import Array

PRIORS = HyperPriors(Gamma(2.0, 1.5), Gamma(3.0, 0.5), Gamma(1.7, 4.0), Normal(0.3, 1.2))
MODELS = {
    "coregionalization": LinearCoregionalization(2, 3, priors=PRIORS),
    "convolution": ConvolutionProcess(2, 1, 3, priors=PRIORS, smoothing=Gamma(2.2, 5.0)),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
EXPECTED = {
    "variance": stats.gamma(2.0, scale=1.0 / 1.5),
    "lengthscale": stats.gamma(3.0, scale=2.0),
    "noise": stats.gamma(1.7, scale=0.25),
    "smoothing": stats.gamma(2.2, scale=0.2),
    "W": stats.norm(0.3, 1.2),
}


def data(seed: int = 0, n: int = 7) -> Observations:
    rng = np.random.default_rng(seed)
    return Observations(rng.uniform(size=(n, 1)), rng.integers(0, 2, n), rng.standard_normal(n))


@every_model
def test_each_parameter_has_the_prior_of_its_name(model: Any) -> None:
    """log p(u) is the sum of the densities of x, floor 1e-6 for noises and 0 for others, and of log dx/du."""
    u = model.draw_prior(np.random.default_rng(0), 5)
    expected = np.zeros(5)
    for name, column in zip(model.names, u.T, strict=True):
        kind = name.split("_")[0]
        if kind == "W":
            expected += EXPECTED[kind].logpdf(column)
            continue
        x = np.log1p(np.exp(column)) + (1e-6 if kind == "noise" else 0.0)
        expected += EXPECTED[kind].logpdf(x) - np.log1p(np.exp(-column))
    np.testing.assert_allclose(model.log_prior(u)[0], expected, rtol=1e-9)


def test_the_smoothing_prior_is_as_documented() -> None:
    """Mean one half, a third of the lengthscales' prior mean."""
    assert SMOOTHING_PRIOR.shape / SMOOTHING_PRIOR.rate == 0.5
    lengthscale = HyperPriors().lengthscale
    assert lengthscale.shape / lengthscale.rate == 1.5
    assert ConvolutionProcess(1, 1).smoothing == SMOOTHING_PRIOR == Gamma(1.5, 3.0)


def test_the_default_priors_are_the_papers() -> None:
    """Li, Rakitsch and Zimmer 2022, supplement B."""
    assert HyperPriors() == HyperPriors(Gamma(2.5, 1.0), Gamma(1.5, 1.0), Gamma(1.5, 3.0), Normal(0.0, 2.0))


@every_model
def test_one_undefined_slope_is_no_likelihood(model: Any) -> None:
    """A finite value with one slope that is not finite: -inf and zero slopes, for that vector only."""
    u = model.draw_prior(np.random.default_rng(1), 3)
    likelihood = model.likelihood(data())
    value, slopes = likelihood.value_and_gradient(u)
    inner = likelihood._of_parameters

    class Undefined:
        def value_and_gradient(self, parameters: Any) -> Any:
            found, gradient = inner.value_and_gradient(parameters)
            noise = gradient.noise.copy()
            noise[1, 0] = np.nan
            return found, replace(gradient, noise=noise)

    likelihood._of_parameters = Undefined()
    found, gradient = likelihood.value_and_gradient(u)
    assert found.tolist() == [value[0], -np.inf, value[2]]
    np.testing.assert_array_equal(gradient, slopes * np.array([[1.0], [0.0], [1.0]]))


def test_blocks_do_not_change_the_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    model, observations = MODELS["convolution"], data(2, 9)
    u = model.draw_prior(np.random.default_rng(3), 7)  # type: ignore[attr-defined]
    X, X2 = observations.X, np.linspace(0.0, 1.0, 4)[:, None]
    whole = model.cross_covariance(u, X, observations.p, X2)  # type: ignore[attr-defined]
    value, gradient = model.likelihood(observations).value_and_gradient(u)  # type: ignore[attr-defined]
    monkeypatch.setattr("gpsuite.models.multi_output.convolution.CHUNK", 50)
    monkeypatch.setattr("gpsuite.models.multi_output.convolution.CHUNK", 3 * 3 * 36)
    np.testing.assert_allclose(model.cross_covariance(u, X, observations.p, X2), whole, rtol=1e-13)  # type: ignore[attr-defined]
    likelihood = model.likelihood(observations)  # type: ignore[attr-defined]
    for size in (2, 7, 3):
        found = likelihood.value_and_gradient(u[:size])
        np.testing.assert_allclose(found[0], value[:size], rtol=1e-12)
        np.testing.assert_allclose(found[1], gradient[:size], rtol=1e-9, atol=1e-10)


@every_model
def test_the_order_of_observations_does_not_matter(model: Any) -> None:
    observations = data(4, 8)
    u = model.draw_prior(np.random.default_rng(5), 3)
    order = np.random.default_rng(6).permutation(8)
    shuffled = Observations(observations.X[order], observations.p[order], observations.y[order])
    for ours, expected in zip(
        model.likelihood(shuffled).value_and_gradient(u),
        model.likelihood(observations).value_and_gradient(u),
        strict=True,
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-9)


@every_model
def test_structures_of_no_use_are_refused(model: Any) -> None:
    for change in ({"n_outputs": -1}, {"n_latent": -1}):
        with pytest.raises(ValueError, match="positive"):
            replace(model, **change)
    assert replace(model, n_latent=0).n_latent == 2
    for p in (-1, 2):
        strange = Observations(np.zeros((1, 1)), np.array([p]), np.zeros(1))
        with pytest.raises(ValueError, match="The model has 2"):
            model.likelihood(strange)


def test_tables_with_gaps_are_read_row_by_row() -> None:
    X, nan = np.array([[0.0], [1.0], [2.0]]), np.nan
    found = Observations.from_table(X, np.array([[1.0, nan], [nan, nan], [2.0, 3.0]]))
    assert found.X.tolist() == [[0.0], [2.0], [2.0]]
    assert (found.p.tolist(), found.y.tolist()) == ([0, 0, 1], [1.0, 2.0, 3.0])
    more = found.extended(np.array([[5.0]]), np.array([1]), np.array([7.0]))
    assert (more.X[-1].tolist(), more.p.tolist(), more.y.tolist()) == ([5.0], [0, 0, 1, 1], [1.0, 2.0, 3.0, 7.0])


def test_two_values_of_one_output_at_one_input_contradict() -> None:
    X = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0], [0.0, 1.0]])
    same = Observations(X, np.array([0, 0, 0, 1]), np.array([1.0, 5.0, 1.0, 2.0]))
    same.check_consistent()
    other = Observations(X, np.array([0, 0, 0, 1]), np.array([1.0, 5.0, 1.5, 2.0]))
    with pytest.raises(ContradictionError, match=r"output 0 at \[0.0, 1.0\]"):
        other.check_consistent()


@pytest.mark.parametrize(
    "arrays",
    [
        (np.zeros(2), np.zeros(2, dtype=int), np.zeros(2)),
        (np.zeros((2, 1)), np.zeros(3, dtype=int), np.zeros(2)),
        (np.zeros((2, 1)), np.zeros(2, dtype=int), np.zeros(3)),
    ],
)
def test_observations_of_other_shapes_are_refused(arrays: tuple[Array, ...]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Observations(*arrays)


@pytest.mark.parametrize("where", ["X", "y"])
def test_observations_that_are_not_finite_are_refused(where: str) -> None:
    arrays = {"X": np.zeros((2, 1)), "p": np.zeros(2, dtype=int), "y": np.zeros(2)}
    arrays[where][1] = np.nan
    with pytest.raises(ValueError, match="finite"):
        Observations(**arrays)
