"""From GPflow's sparse variational classifiers with the softmax or the robust maximum to their posteriors."""

from __future__ import annotations

from dataclasses import fields

import gpflow
import numpy as np
from scipy.linalg import solve_triangular

from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior
from gpsuite.models.kernels import kernel_name
from gpsuite.models.linalg import stable_cholesky
from gpsuite.models.radial import expanded


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
        raise TypeError(
            f"likelihood {type(likelihood).__name__}: only the softmax and the robust maximum are known"
        )
    if robust and type(likelihood.invlink) is not gpflow.likelihoods.RobustMax:
        raise TypeError(f"link {type(likelihood.invlink).__name__}: only the robust maximum is known")
    softmax = softmax_posterior(model)
    if not robust:
        return softmax
    values = {each.name: getattr(softmax, each.name) for each in fields(softmax)}
    return RobustMaxPosterior(**values, epsilon=float(likelihood.invlink.epsilon.numpy()))


def softmax_posterior(model: gpflow.models.SVGP) -> MultiClassPosterior:
    """Return the latent posterior of an SVGP under the softmax, whatever its own likelihood.

    The classes' variational distributions are independent: with K_ZZ + jitter = L L' and the whitened covariance
    Q diag(lambda) Q' of class c, alpha_c = L^-T m_c, and the rows of its root are Q' L^-1 with weights lambda - 1.

    Raises:
        TypeError: for another model, kernel, mean function or inducing variable.
        NotPositiveDefiniteError: if the inducing covariance cannot be factorised.
    """
    _require_plain(model)
    Z, kernel = np.asarray(model.inducing_variable.Z.numpy()), model.kernel
    K = np.asarray(kernel(Z).numpy()) + gpflow.config.default_jitter() * np.eye(len(Z))
    factor = stable_cholesky(K, jitters=(0.0,))
    means, M, C = model.q_mu.numpy(), len(Z), model.num_latent_gps
    roots = model.q_sqrt.numpy()
    alpha, root, weights = np.empty((C, M)), np.zeros((C, M, C, M)), np.empty((C, M))
    for c in range(C):
        mean, own = means[:, c], np.tril(roots[c]) if roots.ndim == 3 else np.diag(roots[:, c])
        if not model.whiten:
            mean, own = factor.half_solve(mean), factor.half_solve(own)
        rotation, singular, _ = np.linalg.svd(own)
        alpha[c] = solve_triangular(factor.lower, mean, lower=True, trans="T")
        root[c, :, c] = solve_triangular(factor.lower, rotation, lower=True, trans="T").T
        weights[c] = singular * singular - 1.0
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


def _require_plain(model: gpflow.models.SVGP) -> None:
    if type(model) is not gpflow.models.SVGP:
        raise TypeError(f"{type(model).__name__} is no SVGP")
    if type(model.inducing_variable) is not gpflow.inducing_variables.InducingPoints:
        raise TypeError("only inducing points can be converted, no other inducing variables")
    if type(model.mean_function) is not gpflow.functions.Zero:
        raise TypeError(f"mean function {type(model.mean_function).__name__}: only the zero mean is known")
    if not model.kernel.active_dims == slice(None, None, None):
        raise TypeError("a kernel on some of the inputs cannot be converted")
