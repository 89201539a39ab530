"""Variational classifiers of GPflow and their posteriors, with the links of `links` as stable likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeAlias

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from gpflow.likelihoods.utils import inv_probit
from scipy.linalg import solve_triangular

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.approximation import GPCPosterior, classification_data
from gpsuite.models.classification.links import LOGISTIC, PROBIT, SQUEEZED_PROBIT, Link
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior
from gpsuite.models.composite import single_kernel
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.kernels import build_kernel, kernel_name
from gpsuite.models.linalg import CholeskyFactor, stable_cholesky
from gpsuite.models.radial import expanded

VariationalModel: TypeAlias = gpflow.models.VGP | gpflow.models.SVGP


def log_sigma(link: Link) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return log p(y=1|f) as a TensorFlow function. ValueError unless the link is probit or logistic."""
    if link == PROBIT:
        log_cdf: Callable[[tf.Tensor], tf.Tensor] = tfp.distributions.Normal(np.float64(0.0), np.float64(1.0)).log_cdf
        return log_cdf
    if link == LOGISTIC:
        log_sigmoid: Callable[[tf.Tensor], tf.Tensor] = tf.math.log_sigmoid
        return log_sigmoid
    raise ValueError(f"link {link.name}: probit or logistic is needed")


def exact_probit(f: tf.Tensor) -> tf.Tensor:
    """Return Phi(f), without GPflow's squeeze to [1e-3, 1 - 1e-3]."""
    return 0.5 * tf.math.erfc(-f / np.sqrt(2.0))


class StableBernoulli(gpflow.likelihoods.Bernoulli):  # type: ignore[misc]
    """GPflow's Bernoulli with log p computed without 1 - p. From f = 9 (probit) on 1 - p rounds to zero.

    Raises:
        ValueError: for another link.
    """

    def __init__(self, link: Link) -> None:
        self._log_sigma = log_sigma(link)
        super().__init__(invlink=exact_probit if link == PROBIT else tf.math.sigmoid)

    def _scalar_log_prob(self, X: Any, F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        return self._log_sigma(tf.where(tf.equal(Y, 1.0), F, -F))

    def _predict_mean_and_var(self, X: Any, Fmu: tf.Tensor, Fvar: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if self.invlink is not exact_probit:
            mean, variance = super()._predict_mean_and_var(X, Fmu, Fvar)
            return mean, variance
        p = exact_probit(Fmu / tf.sqrt(1.0 + Fvar))
        return p, p - tf.square(p)


def build_bernoulli(link: Link) -> gpflow.likelihoods.Bernoulli:
    """Return the GPflow likelihood of a link. GPflow's own for the squeezed probit.

    Raises:
        ValueError: if GPflow has no such likelihood.
    """
    if link == SQUEEZED_PROBIT:
        return gpflow.likelihoods.Bernoulli()
    return StableBernoulli(link)


def link_of(likelihood: gpflow.likelihoods.Likelihood) -> Link:
    """Return the link of a Bernoulli likelihood. TypeError for another likelihood or an unknown inverse link."""
    if type(likelihood) in (gpflow.likelihoods.Bernoulli, StableBernoulli):
        for inverse, link in (
            (inv_probit, SQUEEZED_PROBIT),
            (exact_probit, PROBIT),
            (tf.math.sigmoid, LOGISTIC),
            (tf.nn.sigmoid, LOGISTIC),
        ):
            if likelihood.invlink is inverse:
                return link
    raise TypeError(f"likelihood {type(likelihood).__name__}: only Bernoulli with a known link can be converted")


def build_vgp(
    X: FloatArray, y: FloatArray, spec: ModelSpec, hyperparameters: Hyperparameters, link: Link
) -> gpflow.models.VGP:
    """Return GPflow's VGP, not trained, for labels y of -1 or +1. The model stores them as 0 and 1.

    Raises:
        ValueError: if data, lengthscales or link do not fit.
    """
    X, y = classification_data(X, y)
    kernel = build_kernel(spec, hyperparameters, X.shape[1])
    return gpflow.models.VGP((X, (y[:, None] + 1.0) / 2.0), kernel, build_bernoulli(link))


def variational_posterior(model: VariationalModel) -> GPCPosterior:
    """Return the model's latent posterior with its present parameters.

    Let K_ZZ + jitter = L L', with whitened mean m and covariance S = Q diag(lambda) Q'. They are GPflow's own q with
    `whiten`, otherwise L^-1 m and L^-1 S L^-T. Then alpha = L^-T m, F = Q' L^-1, c = lambda - 1.

    Raises:
        TypeError: for another model, kernel, link, mean function, inducing variable or several latent functions.
        NotPositiveDefiniteError: if the inducing covariance cannot be factorised.
    """
    Z, factor = _inducing(model)
    kernel, link = model.kernel, link_of(model.likelihood)
    if model.num_latent_gps != 1:
        raise TypeError(f"{model.num_latent_gps} latent functions: binary classification has one")
    alpha, root, eigenvalues = whitened_features(model, factor, 0)
    return GPCPosterior(
        X=Z,
        kernel=kernel_name(kernel),
        variance=float(kernel.variance.numpy()),
        lengthscales=expanded(kernel.lengthscales.numpy(), Z.shape[1]),
        alpha=alpha,
        root=np.ascontiguousarray(root),
        weights=eigenvalues - 1.0,
        operator_bound=max(1.0, float(eigenvalues.max())),
        link=link,
    )


def as_vgp(posterior: GPCPosterior, y: FloatArray) -> gpflow.models.VGP:
    """Return GPflow's VGP with the same latent posterior as a Laplace or EP approximation.

    With K + jitter = L L': q_mu = L' alpha and q_sqrt q_sqrt' = I - L' R L. GPflow's jitter cancels, so the
    predictions agree.

    Raises:
        NotPositiveDefiniteError: if the approximation is more certain than GPflow's jitter and that of
            `stable_cholesky` allow.
    """
    spec = ModelSpec(single_kernel(posterior.kernel, "a VGP from a posterior"), ard=True)
    hyperparameters = Hyperparameters(posterior.variance, tuple(posterior.lengthscales.tolist()))
    model = build_vgp(posterior.X, y, spec, hyperparameters, posterior.link)
    count = len(posterior.X)
    K = np.asarray(model.kernel(posterior.X).numpy()) + gpflow.config.default_jitter() * np.eye(count)
    lower = stable_cholesky(K, jitters=(0.0,)).lower
    features = posterior.root @ lower
    covariance = np.eye(count) + (features.T * posterior.weights) @ features
    model.q_mu.assign((lower.T @ posterior.alpha)[:, None])
    model.q_sqrt.assign(stable_cholesky(covariance).lower[None])
    return model


def _inducing(model: VariationalModel) -> tuple[FloatArray, CholeskyFactor]:
    """Return Z [M, D] (for a VGP its training inputs) and the factor of K_ZZ with GPflow's own jitter."""
    if type(model) is gpflow.models.VGP:
        Z = np.asarray(tf.convert_to_tensor(model.data[0]).numpy())
    elif type(model) is not gpflow.models.SVGP:
        raise TypeError(f"{type(model).__name__} is no VGP or SVGP")
    elif type(model.inducing_variable) is not gpflow.inducing_variables.InducingPoints:
        raise TypeError("only inducing points can be converted, no other inducing variables")
    else:
        Z = np.asarray(model.inducing_variable.Z.numpy())
    if type(model.mean_function) is not gpflow.functions.Zero:
        raise TypeError(f"mean function {type(model.mean_function).__name__}: only the zero mean is known")
    if not model.kernel.active_dims == slice(None, None, None):
        raise TypeError("a kernel on some of the inputs cannot be converted")
    K = np.asarray(model.kernel(Z).numpy()) + gpflow.config.default_jitter() * np.eye(len(Z))
    # no jitter of this package: the posterior is GPflow's, and GPflow adds only its own
    return Z, stable_cholesky(K, jitters=(0.0,))


def whitened_features(
    model: VariationalModel, factor: CholeskyFactor, c: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return alpha [M], root F [M, M] and eigenvalues [M] of the whitened covariance of latent function c."""
    mean, roots = model.q_mu.numpy()[:, c], model.q_sqrt.numpy()
    own = np.tril(roots[c]) if roots.ndim == 3 else np.diag(roots[:, c])
    if type(model) is gpflow.models.SVGP and not model.whiten:
        mean, own = factor.half_solve(mean), factor.half_solve(own)
    rotation, singular, _ = np.linalg.svd(own)
    alpha, root = (
        np.asarray(solve_triangular(factor.lower, right, lower=True, trans="T", check_finite=False))
        for right in (mean, rotation)
    )
    return alpha, root.T, singular * singular


def multiclass_posterior(model: gpflow.models.SVGP) -> MultiClassPosterior:
    """Return the latent posterior of an SVGP with one kernel for all classes, with its present parameters.

    With GPflow's `MultiClass` likelihood it is a `RobustMaxPosterior`.

    Raises:
        TypeError: for another model, likelihood, kernel, mean function or inducing variable.
        NotPositiveDefiniteError: if the inducing covariance cannot be factorised.
    """
    likelihood = model.likelihood
    robust = type(likelihood) is gpflow.likelihoods.MultiClass
    if not (type(likelihood) is gpflow.likelihoods.Softmax or robust):
        raise TypeError(f"likelihood {type(likelihood).__name__}: only the softmax and the robust maximum are known")
    if robust and type(likelihood.invlink) is not gpflow.likelihoods.RobustMax:
        raise TypeError(f"link {type(likelihood.invlink).__name__}: only the robust maximum is known")
    softmax = softmax_posterior(model)
    if not robust:
        return softmax
    values = {each.name: getattr(softmax, each.name) for each in fields(softmax)}
    return RobustMaxPosterior(**values, epsilon=float(likelihood.invlink.epsilon.numpy()))


def softmax_posterior(model: gpflow.models.SVGP) -> MultiClassPosterior:
    """Return the latent posterior of an SVGP under the softmax, regardless of its own likelihood.

    The classes' variational distributions are independent. Let K_ZZ + jitter = L L', and Q diag(lambda) Q' the whitened
    covariance of class c. Then alpha_c = L^-T m_c. The rows of its root are Q' L^-1 with weights lambda - 1.

    Raises:
        TypeError: for another model, kernel, mean function or inducing variable.
        NotPositiveDefiniteError: if the inducing covariance cannot be factorised.
    """
    if type(model) is not gpflow.models.SVGP:
        raise TypeError(f"{type(model).__name__} is no SVGP")
    Z, factor = _inducing(model)
    kernel, M, C = model.kernel, len(Z), model.num_latent_gps
    alpha, root, weights = np.empty((C, M)), np.zeros((C, M, C, M)), np.empty((C, M))
    for c in range(C):
        alpha[c], root[c, :, c], eigenvalues = whitened_features(model, factor, c)
        weights[c] = eigenvalues - 1.0
    return MultiClassPosterior(
        X=Z,
        kernel=kernel_name(kernel),
        variance=float(kernel.variance.numpy()),
        lengthscales=expanded(kernel.lengthscales.numpy(), Z.shape[1]),
        alpha=alpha,
        root=root.reshape(C * M, C, M),
        weights=weights.ravel(),
        operator_bound=max(1.0, 1.0 + float(weights.max())),
    )
