from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.multiclass_posterior import (
    SMALLEST,
    MultiClassPosterior,
    RobustMaxPosterior,
    softmax_moments,
)
from gpsuite.models.classification.robust_max import checked_labels, largest_probabilities, log_levels
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.latent import LatentPosterior
from gpsuite.models.multi_output.convolution import ConvolutionProcess
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.radial import expanded
from gpsuite.models.random_elements.elements import NNGP
from gpsuite.models.random_elements.likelihoods import GaussianNoise
from gpsuite.models.regression.gpflow_models import build_likelihood
from gpsuite.models.regression.inducing import kmeans_inducing
from gpsuite.models.sampling.hamiltonian import HMCSettings
from gpsuite.models.sampling.posterior import HyperPosterior, OptimumSettings
from gpsuite.models.sampling.priors import Gamma
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from tests.limits import TINY, Limit, check, sides

X = np.array([[0.0], [1.0], [2.0]])
LATENT = LatentPosterior(X, "matern52", 1.0, np.ones(1), np.ones(3), np.eye(3), -np.ones(3), 1.0)
CLASSES = MultiClassPosterior(X, "matern52", 1.0, np.ones(1), np.ones((3, 3)), np.zeros((1, 3, 3)), -np.ones(1), 1.0)


def robust(**changed: object) -> RobustMaxPosterior:
    return RobustMaxPosterior(**{**vars(CLASSES), **changed})


def shared(functions: int) -> RobustMaxPosterior:
    """Return a posterior with one direction that so many functions share."""
    root = np.zeros((1, 3, 3))
    root[0, :functions] = 0.5
    return robust(root=root)


def with_classes(C: int) -> MultiClassPosterior:
    return replace(CLASSES, alpha=np.ones((C, 3)), root=np.zeros((1, C, 3)))


def moments(C: int) -> object:
    return softmax_moments(np.zeros((2, C)), np.zeros((2, C, max(C - 1, 0))))


def weights(first: float) -> HyperPosterior:
    return HyperPosterior(np.zeros((2, 1)), np.array([first, 1.0 - first]))


LIMITS = [
    Limit("latent variance", lambda s: replace(LATENT, variance=s), (TINY, 1.0), (0.0, -1.0, inf, nan)),
    Limit("latent lengthscale", lambda v: replace(LATENT, lengthscales=np.array([v])), (TINY,), (0.0, -1.0)),
    Limit("latent operator", lambda g: replace(LATENT, operator_bound=g), (1.0, 2.0), (1 - 2**-53, inf, nan)),
    Limit("classes variance", lambda s: replace(CLASSES, variance=s), (TINY, 1.0), (0.0, -1.0, inf, nan)),
    Limit("classes lengthscale", lambda v: replace(CLASSES, lengthscales=np.array([v])), (TINY,), (0.0, -1.0)),
    Limit("classes operator", lambda g: replace(CLASSES, operator_bound=g), (1.0, 2.0), (1 - 2**-53, inf, nan)),
    Limit("classes", with_classes, (2, 3), (1,)),
    Limit("first class", lambda c: CLASSES.difference(c, 1), (0, 2), (-1, 1, 3)),
    Limit("second class", lambda c: CLASSES.difference(1, c), (0, 2), (-1, 1, 3)),
    Limit("function", CLASSES.function, (0, 2), (-1, 3)),
    Limit("robust epsilon", lambda e: robust(epsilon=e), (TINY, 0.666), (0.0, 2 / 3, 1.0, nan)),
    Limit("shared direction", shared, (0, 1), (2, 3)),
    Limit("levels classes", lambda C: log_levels(C, 0.1), (2,), (1,)),
    Limit("levels epsilon", lambda e: log_levels(3, e), (1e-300, 1 - 2**-53), (0.0, 1.0, nan)),
    Limit("label", lambda y: checked_labels(np.array([0, y]), 2, 3), (0, 2), (-1, 3, 0.5)),
    Limit("largest variance", lambda v: largest_probabilities(np.zeros((1, 2)), np.full((1, 2), v)), (1e-300,), (0.0,)),
    Limit("moments classes", moments, (2, 3), (1,)),
    Limit("noise floor", lambda f: ModelSpec(noise_floor=f), (0.0, 1.0), (-TINY, inf, nan)),
    Limit("hyperparameter", lambda v: Hyperparameters(variance=v), (TINY,), (0.0, inf, nan)),
    Limit("lengthscale", lambda v: Hyperparameters(lengthscales=(1.0, v)), (TINY,), (0.0, inf, nan)),
    Limit("noise", lambda v: Hyperparameters(noise_variance=v), (TINY,), (0.0, inf, nan)),
    Limit(
        "noise above floor",
        lambda v: build_likelihood(ModelSpec(noise_floor=0.5), Hyperparameters(noise_variance=v)),
        (0.6,),
        (0.5, 0.4),
    ),
    Limit("radial lengthscale", lambda v: expanded((v,), 2), (TINY,), (0.0, -1.0, inf, nan)),
    Limit("radial count", lambda n: expanded((1.0,) * n, 3), (1, 3), (0, 2, 4)),
    Limit("nngp depth", lambda d: NNGP(depth=d), (1,), (0,)),
    Limit("nngp weights", lambda v: NNGP(weight_variance=v), (1e-3,), (0.0,)),
    Limit("nngp bias", lambda v: NNGP(bias_variance=v), (0.0, 0.1), (-1e-300,)),
    Limit("nngp scale", lambda v: NNGP(scale=v), (1e-3,), (0.0,)),
    Limit("network width", lambda w: NetworkSpec(widths=(3, w)), (1,), (0,)),
    Limit("network layers", lambda n: NetworkSpec(widths=(3,) * n), (1,), (0,)),
    Limit("network image", lambda n: NetworkSpec(widths=(3, 3), image=(n, 4, 1)), (4,), (3,)),
    Limit("network image width", lambda n: NetworkSpec(widths=(3, 3), image=(4, n, 1)), (4,), (3,)),
    *(
        Limit(f"HMC {name}", lambda n, name=name: HMCSettings(**{name: n}), (1,), (0,))
        for name in ("chains", "samples", "leapfrog")
    ),
    Limit("HMC thinning", lambda n: HMCSettings(thinning=n), (0,), (-1,)),
    Limit("HMC step", lambda s: HMCSettings(step=s), (TINY,), (0.0, nan)),
    Limit("HMC adaptation", lambda n: HMCSettings(burn_in=10, adaptation=n), (0, 10), (11,)),
    Limit("optimum starts", lambda n: OptimumSettings(starts=n), (0,), (-1,)),
    Limit("optimum evaluations", lambda n: OptimumSettings(evaluations=n), (1,), (0,)),
    Limit("SMC particles", lambda n: SMCSettings(particles=n), (2,), (1,)),
    *(
        Limit(f"SMC {name}", lambda n, name=name: SMCSettings(**{name: n}), (1,), (0,))
        for name in ("moves", "leapfrog")
    ),
    Limit("SMC restart", lambda s: SMCSettings(restart=s, temper=0.3), (0.0, 0.3), (-TINY, 0.31)),
    Limit("SMC temper", lambda s: SMCSettings(temper=s, keep=0.5), (0.05, 0.5), (0.04, 0.51)),
    Limit("SMC keep", lambda s: SMCSettings(keep=s), (0.3, 1.0), (0.29, 1.01)),
    Limit("weights", weights, (0.0, 0.5, 1.0), (-0.1, 1.1)),
    Limit(
        "sum of weights",
        lambda s: HyperPosterior(np.zeros((1, 1)), np.array([s])),
        (1 + 0.9e-9, 1 - 0.9e-9),
        (1 + 1.1e-9, 1 - 1.1e-9),
    ),
    Limit("gamma", lambda v: Gamma(shape=v, rate=1.0), (TINY,), (0.0, inf, nan)),
    Limit("coregionalised outputs", lambda n: LinearCoregionalization(n_outputs=n, n_latent=1), (1,), (0,)),
    Limit("latent processes", lambda n: LinearCoregionalization(n_outputs=2, n_latent=n), (0, 1), (-1,)),
    *(
        Limit(
            f"convolution {name}",
            lambda n, name=name: ConvolutionProcess(**{"n_outputs": 2, "n_inputs": 2, "n_latent": 1, name: n}),
            (1,),
            (-1,),
        )
        for name in ("n_outputs", "n_inputs", "n_latent")
    ),
    Limit("Gaussian noise", GaussianNoise, (1e-300,), (0.0, nan)),
    Limit("inducing", lambda m: kmeans_inducing(X, m, np.random.default_rng(0)), (1, 3), (0, 4)),
]


@sides(LIMITS)
def test_a_limit_is_where_it_is_said_to_be(limit: Limit, value: object, refused: bool) -> None:
    check(limit, value, refused)


def test_a_robust_maximum_keeps_variances_above_the_stated_share_of_the_priors() -> None:
    """At a datum whose variance rounds to nothing the probability is that of the stated share."""
    root = np.zeros((3, 3, 3))
    for c in range(3):
        root[c, c, 0] = 1.0  # takes away the whole variance at the first datum
    alpha: FloatArray = np.zeros((3, 3))
    step = np.sqrt(SMALLEST)
    alpha[0, 0] = step
    posterior = robust(alpha=alpha, root=root, weights=-np.ones(3), epsilon=1e-9)
    wide = largest_probabilities(np.array([[step, 0.0, 0.0]]), np.full((1, 3), SMALLEST))
    assert posterior.probabilities(X[:1])[0, 0] == pytest.approx(wide[0, 0], abs=1e-6)
    assert SMALLEST == 1e-12
