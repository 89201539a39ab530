"""Small classification problems and posteriors for the tests of the classifiers."""

from __future__ import annotations

import gpflow
import numpy as np

from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.links import PROBIT, Link
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.classification.variational import build_bernoulli
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.kernels import build_kernel
from tests.arrays import Array


def two_classes(seed: int, count: int = 30, inputs: int = 2) -> tuple[Array, Array]:
    """Return inputs [count, inputs] and noisy labels -1 or +1 [count] of a curved boundary."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, inputs))
    y = np.where(X[:, 0] + 0.5 * X[:, -1] ** 2 - 0.4 + 0.3 * rng.standard_normal(count) > 0.0, 1.0, -1.0)
    return X, y


def fitted_posterior(
    inference: str = "ep",
    kernel: str = "squared_exponential",
    link: Link = PROBIT,
    hyperparameters: Hyperparameters | None = None,
    seed: int = 0,
) -> tuple[GPCPosterior, Array]:
    """Return a converged posterior over `two_classes` and the labels."""
    X, y = two_classes(seed)
    hyperparameters = hyperparameters or Hyperparameters(2.5, (0.8, 1.7))
    fit = INFERENCES.get(inference)(BinaryProblem(X, y, ModelSpec(kernel, ard=True), link), hyperparameters, None)
    return fit.require_converged(), y


def build_svgp(
    Z: Array, num_data: int, spec: ModelSpec, hyperparameters: Hyperparameters, link: Link, whiten: bool = True
) -> gpflow.models.SVGP:
    """Build GPflow's sparse variational classifier with inducing inputs Z [M, D]; it is not trained."""
    kernel = build_kernel(spec, hyperparameters, Z.shape[1])
    inducing = gpflow.inducing_variables.InducingPoints(np.array(Z, dtype=np.float64))
    return gpflow.models.SVGP(kernel, build_bernoulli(link), inducing, num_data=num_data, whiten=whiten)
