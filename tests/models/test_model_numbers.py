"""Fits, predictions, likelihoods, gradients and short chains give the numbers they gave: see tests/golden.py."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.models.classification import robust_max
from gpsuite.models.classification.approximation import (
    BinaryProblem,
    gaussian_kl,
    gaussian_wasserstein,
    wasserstein_to_draws,
)
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.multiclass_posterior import RobustMaxPosterior, centred_root, softmax_moments
from gpsuite.models.classification.softmax_laplace import softmax_laplace
from gpsuite.models.classification.training import INFERENCES, train_gpc, train_multiclass_gpc
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.multi_output.convolution import ConvolutionProcess
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.radial import kappa, kappa_and_slope, squared_distances
from gpsuite.models.random_elements.elements import _typical_distance
from gpsuite.models.random_elements.likelihoods import normal_points
from gpsuite.models.sampling.hamiltonian import HMCSettings, effective_sample_size, sample_hmc, split_r_hat
from gpsuite.models.sampling.posterior import (
    OptimumSettings,
    find_optimum,
    mixture_covariance,
    mixture_log_density,
    mixture_moments,
)
from gpsuite.models.sampling.priors import HyperPriors
from gpsuite.models.sampling.sequential_monte_carlo import (
    NewObservations,
    SMCSettings,
    start,
    systematic_resample,
    update,
)
from tests import golden
from tests.models.gpc_problems import two_classes
from tests.models.linear_gaussian_target import LinearGaussianModel, first, linear_data
from tests.models.softmax_problems import drawn_problem

KERNELS = ("squared_exponential", "matern32", "matern52")
PACKAGES = ("gpsuite.models",)
POINTS = np.array([[0.2, 0.1], [1.5, -1.0], [4.0, 4.0]])


def classifier(inference: str, kernel: str, link: str) -> list[object]:
    X, y = two_classes(0, 14)
    problem = BinaryProblem(X, y, ModelSpec(kernel, ard=True), LINKS.get(link))
    fit = INFERENCES.get(inference)(problem, Hyperparameters(2.5, (0.8, 1.7)), None)
    again = INFERENCES.get(inference)(problem, Hyperparameters(2.4, (0.9, 1.7)), fit.state)
    posterior = fit.require_converged()
    found: list[object] = [fit, again.log_marginal_likelihood, again.gradient, again.iterations]
    found += [posterior.latent(POINTS), posterior.latent_with_gradient(POINTS)]
    return [*found, posterior.probability(POINTS), posterior.probability_with_gradient(POINTS)]


def links(name: str) -> list[object]:
    """Expectations, tilted moments and derivatives, of little and of much variance, in the middle and in the tails."""
    link = LINKS.get(name)
    mean, variance = (np.array([0.0, 0.3, -2.0, 9.0, -40.0, 1.0]), np.array([1.0, 1e-10, 0.3, 20.0, 2.0, 400.0]))
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    found: list[object] = [link.sigma(mean), link.log_likelihood(y, mean), link.derivatives(y, mean)]
    found += [link.probability(mean, variance), link.probability_gradient(mean, variance)]
    return [*found, link.log_partition(y, mean, variance), link.B2, link.B3, link.B4]


def trained() -> list[object]:
    X, y = two_classes(0, 12)
    begin = Hyperparameters(1.0, (1.0, 1.0))
    found: list[object] = []
    for inference in ("laplace", "ep"):
        problem = BinaryProblem(X, y, ModelSpec(ard=True), LINKS.get("probit"))
        end = train_gpc(problem, inference, begin, Budget(evaluations=3))
        found += [end.hyperparameters, end.evaluations, end.failed]
    several = train_multiclass_gpc(drawn_problem(3, 9), begin, Budget(evaluations=3))
    return [*found, several.hyperparameters, several.evaluations]


def several_classes(C: int, kernel: str) -> list[object]:
    fit = softmax_laplace(drawn_problem(C, 4 * C, kernel=kernel), Hyperparameters(3.0, (1.1, 0.8)))
    again = softmax_laplace(drawn_problem(C, 4 * C, kernel=kernel), Hyperparameters(2.5, (1.1, 0.8)), fit.state)
    p = fit.require_converged()
    found: list[object] = [fit, again.log_marginal_likelihood, again.gradient, p.latent(POINTS), p.moments(POINTS)]
    found += [p.mean_with_gradient(POINTS), p.difference(0, 1).latent(POINTS)]
    return [*found, p.function(1).latent(POINTS)]


def expectations() -> list[object]:
    rng = np.random.default_rng(7)
    found: list[object] = []
    for C, scale in ((2, 0.7), (3, 0.3), (4, 1.5), (8, 0.5)):
        A = scale * rng.standard_normal((4, C, C))
        A[0] = 0.0
        found += [softmax_moments(rng.standard_normal((4, C)), centred_root(A @ A.transpose(0, 2, 1)))]
    mean, variance = rng.standard_normal((5, 3)), 10.0 ** rng.uniform(-5.0, 1.0, (5, 3))
    S = robust_max.largest_probabilities(mean, variance)
    found += [S, robust_max.label_probability(mean, variance, np.array([0, 1, 2, 0, 1]))]
    found += [robust_max.gauss_hermite_probabilities(mean, variance, 20), robust_max.sum_error(S)]
    found += [robust_max.expected_log_likelihood(S[:, 0], 3), robust_max.predictive_probabilities(S)]
    found += [robust_max.data_uncertainty(3), robust_max.log_levels(3, 0.01)]
    root = np.zeros((6, 3, 2))
    for c in range(3):
        root[2 * c : 2 * c + 2, c] = 0.3 * rng.standard_normal((2, 2))
    posterior = RobustMaxPosterior(
        POINTS[:2], "matern52", 1.3, np.ones(2), rng.standard_normal((3, 2)), root, -np.ones(6), 1.0
    )
    return [*found, posterior.probabilities(POINTS), normal_points(2)[:40], normal_points(1)[:40]]


def kernels() -> list[object]:
    q = np.array([0.0, 1e-12, 0.3, 2.0, 40.0])
    found: list[object] = [part for k in KERNELS for part in (kappa(k, q), kappa_and_slope(k, q))]
    wide = np.random.default_rng(1).standard_normal((4, 30))
    X = np.array([[0.0], [1.0], [1.0], [3.5]])
    return [*found, squared_distances(POINTS, POINTS + 0.1), squared_distances(wide, wide), _typical_distance(X)]


def outputs(kind: str) -> list[object]:
    """Likelihood, gradient, prior and predictions, with repeated inputs, then with more values."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, (9, 2))
    X[5] = X[0]
    observations = Observations(X, np.arange(9) % 2, rng.standard_normal(9))
    models: dict[str, LinearCoregionalization | ConvolutionProcess] = {
        "coregionalization": LinearCoregionalization(2),
        "independent": LinearCoregionalization(2, mixing="identity", kernel="squared_exponential"),
        "convolution": ConvolutionProcess(2, 2, 2),
    }
    model = models[kind]
    u = model.draw_prior(rng, 3)
    likelihood, pool = model.likelihood(observations), rng.uniform(-1.0, 1.0, (4, 2))
    found: list[object] = [u, likelihood.value(u), likelihood.value_and_gradient(u), model.log_prior(u)]
    found += [model.constrain(u), model.noise(u), model.prior_covariance(u)]
    found += [model.cross_covariance(u, X, observations.p, pool)]
    predictions = PoolPredictions(model, u, observations, pool, capacity=12, covariances=True)
    found += [predictions.mean.copy(), predictions.variance.copy(), np.array(predictions.covariance)]
    found += [predictions.extend(pool[:2], np.array([1, 0]), np.array([0.3, -0.2]))]
    predictions.select(np.array([0, 2, 2]))
    return [*found, predictions.mean, predictions.variance, predictions.covariance]


def chains() -> list[object]:
    model, data = LinearGaussianModel(), linear_data(0, 10)
    settings = HMCSettings(chains=2, burn_in=6, samples=5, thinning=2, leapfrog=3, step=0.2, adaptation=4)
    likelihood = model.likelihood(data)
    found: list[object] = [sample_hmc(model, likelihood, np.random.default_rng(0), settings)]
    x = np.random.default_rng(1).standard_normal((12, 3)).cumsum(axis=0)
    return [*found, split_r_hat(x), effective_sample_size(x), effective_sample_size(x[:5])]


def clouds() -> list[object]:
    """A cloud that starts at the prior, then takes in observations that need stages and one that does not."""
    model, data = LinearGaussianModel(), linear_data(0, 12)
    settings, rng = SMCSettings(particles=16, moves=2, leapfrog=3), np.random.default_rng(3)
    state = start(model, model.likelihood(first(data, 4)), rng, settings)
    found: list[object] = [state]
    for before, after in ((4, 11), (11, 12)):
        old, new = (model.likelihood(first(data, count)) for count in (before, after))
        state = update(state, model, NewObservations(old, new, new.value(state.u) - old.value(state.u)), rng, settings)
        found += [state, state.posterior.weights]
    return [*found, systematic_resample(np.array([0.1, 0.5, 0.0, 0.4]), np.random.default_rng(4))]


def optima() -> list[object]:
    model, data = LinearGaussianModel(), linear_data(0, 10)
    likelihood = model.likelihood(data)
    found: list[object] = [
        find_optimum(model, likelihood, np.random.default_rng(0), OptimumSettings(kind, 2, 4)) for kind in ("map", "ml")
    ]
    rng, priors = np.random.default_rng(5), HyperPriors()
    mean, variance, weights = (rng.standard_normal((3, 4)), rng.uniform(0.1, 1.0, (3, 4)), np.array([0.2, 0.5, 0.3]))
    A = rng.standard_normal((3, 4, 2, 2))
    found += [mixture_moments(mean, variance, weights)]
    found += [mixture_covariance(rng.standard_normal((3, 4, 2)), A @ A.transpose(0, 1, 3, 2), weights)]
    found += [mixture_log_density(mean[0], mean, variance, np.full((3, 1), 0.1), weights)]
    x = np.array([0.1, 1.0, 3.0])
    return [
        *found,
        *(each.log_density(x) for each in (priors.variance, priors.lengthscale, priors.noise, priors.mixing)),
    ]


def apart() -> list[object]:
    rng = np.random.default_rng(1)
    mean, variance, draws = rng.standard_normal(3), rng.uniform(0.1, 1.0, 3), rng.standard_normal((30, 3))
    others = (mean, variance, mean + 0.1, 1.1 * variance)
    return [wasserstein_to_draws(mean, variance, draws), gaussian_kl(*others), gaussian_wasserstein(*others)]


SCENARIOS: dict[str, golden.Scenario] = {
    **{
        f"classifier, {inference}, {kernel}, {link}": partial(classifier, inference, kernel, link)
        for inference, kernel, link in [
            *itertools.product(("laplace", "ep"), ("squared_exponential",), ("probit", "logistic")),
            ("laplace", "matern32", "logistic"),
            ("ep", "matern52", "probit"),
        ]
    },
    **{f"link, {name}": partial(links, name) for name in ("probit", "logistic", "squeezed_probit")},
    "training": trained,
    **{
        f"{C} classes, {kernel}": partial(several_classes, C, kernel)
        for C, kernel in [(2, "matern32"), (3, "squared_exponential"), (4, "matern52")]
    },
    "expectations": expectations,
    "kernels": kernels,
    **{f"outputs, {kind}": partial(outputs, kind) for kind in ("coregionalization", "independent", "convolution")},
    "chains": chains,
    "clouds": clouds,
    "optima": optima,
    "distances of posteriors": apart,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_numbers_are_the_stored_ones(name: str) -> None:
    golden.check(__file__, name, SCENARIOS[name], PACKAGES)
