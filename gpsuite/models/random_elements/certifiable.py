"""From a trained two-class measure to the posterior that the robustness family certifies."""

from __future__ import annotations

import gpflow
import numpy as np
from scipy.linalg import solve_triangular

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.links import Link
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.models.kernels import kernel_name
from gpsuite.models.radial import expanded
from gpsuite.models.random_elements.element import GaussianElement
from gpsuite.models.random_elements.kernels import SparseKernel
from gpsuite.models.random_elements.means import KernelMean


def certifiable_posterior(element: GaussianElement, link: Link) -> GPCPosterior:
    """Return a measure with a kernel mean and a sparse kernel as a classifier's posterior over its inducing inputs.

    With K_ZZ + jitter = L L' and S = B B' = Q diag(lambda) Q': alpha = L^-T b, F = Q' L^-1, c = lambda - 1.

    Args:
        element: of one latent function, prior mean 0, mean `KernelMean`, kernel `SparseKernel`.
        link: class probability from the latent value.

    Raises:
        TypeError: for another element: a network's mean has no certified range, a constant none either.
    """
    mean, kernel, basis = element.mean, element.kernel, element.basis
    if not (isinstance(mean, KernelMean) and isinstance(kernel, SparseKernel) and basis is not None):
        raise TypeError("only a kernel mean with a sparse kernel can be certified")
    if element.prior_mean != 0.0 or mean.weights.shape[1] != 1:
        raise TypeError("one latent function with prior mean 0 is needed")
    prior: gpflow.kernels.IsotropicStationary = element.prior_kernel
    rotation, singular, _ = np.linalg.svd(np.tril(kernel.factors.numpy()[0]))
    eigenvalues = singular * singular

    def transposed_solve(right: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(basis.factor, right, lower=True, trans="T"))

    return GPCPosterior(
        X=basis.Z,
        kernel=kernel_name(prior),
        variance=float(prior.variance.numpy()),
        lengthscales=expanded(prior.lengthscales.numpy(), basis.Z.shape[1]),
        alpha=transposed_solve(mean.weights.numpy()[:, 0]),
        root=np.ascontiguousarray(transposed_solve(rotation).T),
        weights=eigenvalues - 1.0,
        operator_bound=max(1.0, float(eigenvalues.max())),
        link=link,
    )
