"""Models of GPflow as they are: GPR, SGPR, VGP and SVGP with their own jitter, mean function and kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import UserError
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior
from gpsuite.models.classification.variational import link_of, whitened_features
from gpsuite.models.composite import LatentKernel
from gpsuite.models.given.given import NO_SHIFT, GivenModel, Latent, shifted
from gpsuite.models.given.kernels import gpflow_kernel
from gpsuite.models.latent import LatentPosterior
from gpsuite.models.linalg import CholeskyFactor, stable_cholesky
from gpsuite.models.regression.gpflow_models import exact_features, sparse_features

MODELS = (gpflow.models.GPR, gpflow.models.SGPR, gpflow.models.VGP, gpflow.models.SVGP)
MEAN = "the predictive mean, that of predict_f"
SOFTMAX = "the exact expectation of the softmax, which GPflow's predict_y estimates by Monte Carlo"
ROBUST_MAX = (
    "the exact probabilities of the robust maximum, which GPflow's predict_y computes by a quadrature of few nodes"
)
LINKS = {
    "squeezed_probit": "the class probability, that of predict_y",
    "probit": "the class probability, that of predict_y",
    "logistic": "the exact expectation of the sigmoid, which GPflow's predict_y computes by a quadrature of few nodes",
}


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a model.

    Attributes:
        model: GPflow's model.
        Z: the inputs over which its posterior is a sum, [M, D].
        kernel: kernel in the form of posteriors, of the inputs in `columns`.
        columns: the inputs that it reads, [d].
        own: the kernel itself, of one latent function.
        offset: the constant mean function of every latent function, [L].
    """

    model: Any
    Z: FloatArray
    kernel: LatentKernel
    columns: IntArray
    own: Any
    offset: FloatArray

    def factor(self, added: float) -> CholeskyFactor:
        """Return the factor of K_ZZ + added I, without a jitter of this package."""
        return stable_cholesky(self.own(self.Z).numpy() + added * np.eye(len(self.Z)), jitters=(0.0,))

    def posterior(self, kind: Any, alpha: FloatArray, root: FloatArray, weights: FloatArray, **more: Any) -> Any:
        """Return a posterior of the inputs that the kernel reads."""
        kernel, largest = self.kernel, max(1.0, 1.0 + float(weights.max(initial=0.0)))
        X = np.ascontiguousarray(self.Z[:, self.columns])
        return kind(X, kernel.kernel, kernel.variance, kernel.lengthscales, alpha, root, weights, largest, **more)

    def latent(self, white: float, shift: float) -> Latent:
        """Return GPflow's latent moments less the parts that the posterior does not include."""

        def moments(X: FloatArray) -> tuple[FloatArray, FloatArray]:
            mean, variance = (np.asarray(part.numpy(), dtype=np.float64) for part in self.model.predict_f(X))
            return np.squeeze(mean - shift, -1) if mean.shape[1] == 1 else mean - shift, (
                np.squeeze(variance - white, -1) if variance.shape[1] == 1 else variance - white
            )

        return moments

    def given(self, posterior: Any, about: str, white: float, shift: float, **more: Any) -> GivenModel:
        """Return the model. `white` and `shift` are the white noise and shift that the posterior does not include."""
        return GivenModel(posterior, self.Z.shape[1], self.columns, about=about, own=self.latent(white, shift), **more)


def from_gpflow(model: Any) -> GivenModel:
    """Return a GPflow model's posterior with its present parameters.

    Raises:
        UserError: if the model, its kernel, likelihood, mean function or inducing variable is unknown.
        NotPositiveDefiniteError: if its covariance cannot be factorised with the model's own jitter.
    """
    if type(model) not in MODELS:
        names = ", ".join(each.__name__ for each in MODELS)
        raise UserError(f"model {type(model).__name__}: certify takes GPflow's {names}")
    likelihood = type(model.likelihood)
    build = BUILDERS.get(likelihood)
    if build is None:
        names = ", ".join(each.__name__ for each in BUILDERS)
        raise UserError(f"likelihood {likelihood.__name__}: certify knows {names}")
    return build(_taken_apart(model))


def _taken_apart(model: Any) -> Parts:
    kernel = model.kernel
    if type(kernel) is gpflow.kernels.SharedIndependent:
        kernel = kernel.kernel
    if hasattr(model, "inducing_variable"):
        inducing = model.inducing_variable
        if type(inducing) is gpflow.inducing_variables.SharedIndependentInducingVariables:
            inducing = inducing.inducing_variable
        if type(inducing) is not gpflow.inducing_variables.InducingPoints:
            raise UserError(f"inducing variables {type(inducing).__name__}: certify knows InducingPoints")
        inputs = inducing.Z
    else:
        inputs = tf.convert_to_tensor(model.data[0])
    Z = np.asarray(inputs.numpy(), dtype=np.float64)
    return Parts(model, Z, *gpflow_kernel(kernel, Z.shape[1]), kernel, _offset(model))


def _offset(model: Any) -> FloatArray:
    """Return the constant mean of every latent function."""
    mean, count = model.mean_function, model.num_latent_gps
    if type(mean) is gpflow.functions.Zero:
        return np.zeros(count)
    if type(mean) is not gpflow.functions.Constant:
        raise UserError(f"mean function {type(mean).__name__}: certify knows Zero and Constant")
    return np.broadcast_to(np.asarray(mean.c.numpy(), dtype=np.float64).ravel(), count)


def _regression(parts: Parts) -> GivenModel:
    model, offset = parts.model, float(parts.offset[0])
    if not isinstance(model.likelihood.variance, gpflow.Parameter):
        raise UserError("a Gaussian likelihood whose variance depends on the inputs: certify knows one variance")
    noise, jitter = float(model.likelihood.variance.numpy()), gpflow.config.default_jitter()
    if model.num_latent_gps != 1:
        raise UserError(f"{model.num_latent_gps} outputs: certify takes a regression with one")
    targets = None
    if isinstance(model, gpflow.models.GPR):
        targets = _targets(model) - offset
        features = exact_features(parts.factor(noise), targets)
    elif isinstance(model, gpflow.models.SGPR):
        across = parts.own(parts.Z, model.data[0]).numpy()
        features = sparse_features(parts.factor(jitter), across, _targets(model) - offset, noise)
    else:
        features = whitened_features(model, parts.factor(jitter), 0)
        features = features[0], np.ascontiguousarray(features[1]), features[2] - 1.0
    white = parts.kernel.white
    posterior = parts.posterior(LatentPosterior, *features)
    more = {"noise": noise + white, "offset": offset, "targets": targets}
    return parts.given(posterior, MEAN, white, offset, labels=(), **more)


def _targets(model: Any) -> FloatArray:
    return np.asarray(model.data[1].numpy()[:, 0], dtype=np.float64)


def _two_classes(parts: Parts) -> GivenModel:
    model, white, offset = parts.model, parts.kernel.white, float(parts.offset[0])
    try:
        link = link_of(model.likelihood)
    except TypeError:
        raise UserError("a Bernoulli likelihood of another link: certify knows probit and sigmoid") from None
    if model.num_latent_gps != 1:
        raise UserError(f"{model.num_latent_gps} latent functions: a Bernoulli likelihood has one")
    alpha, root, eigenvalues = whitened_features(model, parts.factor(gpflow.config.default_jitter()), 0)
    plain = parts.posterior(GPCPosterior, alpha, np.ascontiguousarray(root), eigenvalues - 1.0, link=link)
    fault = NO_SHIFT if white or offset else ""
    posterior = shifted(plain, offset, white)
    return parts.given(posterior, LINKS[link.name], 0.0, 0.0, labels=(0, 1), uncertified=fault)


def _several_classes(parts: Parts) -> GivenModel:
    model, C = parts.model, parts.model.num_latent_gps
    if np.ptp(parts.offset) > 0.0 or parts.kernel.white:
        raise UserError(
            "several classes with different constant means, or with white noise in the kernel: certify does not "
            "know them"
        )
    factor, M = parts.factor(gpflow.config.default_jitter()), len(parts.Z)
    alpha, root, weights = np.empty((C, M)), np.zeros((C, M, C, M)), np.empty((C, M))
    for c in range(C):
        alpha[c], root[c, :, c], eigenvalues = whitened_features(model, factor, c)
        weights[c] = eigenvalues - 1.0
    arrays = alpha, root.reshape(C * M, C, M), weights.ravel()
    labels, shift = tuple(range(C)), float(parts.offset[0])
    if type(model.likelihood) is gpflow.likelihoods.Softmax:
        return parts.given(parts.posterior(MultiClassPosterior, *arrays), SOFTMAX, 0.0, shift, labels=labels)
    if type(model.likelihood.invlink) is not gpflow.likelihoods.RobustMax:
        raise UserError(f"link {type(model.likelihood.invlink).__name__}: certify knows the robust maximum")
    epsilon = float(model.likelihood.invlink.epsilon.numpy())
    posterior = parts.posterior(RobustMaxPosterior, *arrays, epsilon=epsilon)
    fault = "there is no certificate format for the robust maximum"
    return parts.given(posterior, ROBUST_MAX, 0.0, shift, labels=labels, uncertified=fault)


BUILDERS: dict[type, Callable[[Parts], GivenModel]] = {
    gpflow.likelihoods.Gaussian: _regression,
    gpflow.likelihoods.Bernoulli: _two_classes,
    gpflow.likelihoods.Softmax: _several_classes,
    gpflow.likelihoods.MultiClass: _several_classes,
}
