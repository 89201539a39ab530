"""From trained measures to the posteriors that the robustness family certifies."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
from scipy.linalg import solve_triangular

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import Link
from gpsuite.models.classification.multiclass_posterior import RobustMaxPosterior
from gpsuite.models.kernels import kernel_name
from gpsuite.models.radial import expanded
from gpsuite.models.random_elements.elements import GaussianElement, KernelMean, SparseKernel


def certifiable_posterior(element: GaussianElement, link: Link) -> GPCPosterior:
    """Return a measure with a kernel mean and a sparse kernel as a classifier's posterior over its inducing inputs.

    With K_ZZ + jitter = L L' and S = B B' = Q diag(lambda) Q': alpha = L^-T b, F = Q' L^-1, c = lambda - 1.

    Args:
        element: of one latent function, prior mean 0, mean `KernelMean`, kernel `SparseKernel`.
        link: class probability from the latent value.

    Raises:
        TypeError: for another element: a network's mean has no certified range, a constant none either.
    """
    parts, alpha, root, weights = _functions(element)
    if element.prior_mean != 0.0 or len(alpha) != 1:
        raise TypeError("one latent function with prior mean 0 is needed")
    return GPCPosterior(
        **parts,
        alpha=alpha[0],
        root=root[0],
        weights=weights[0],
        operator_bound=max(1.0, 1.0 + float(weights.max())),
        link=link,
    )


def certifiable_robust_max(element: GaussianElement, epsilon: float) -> RobustMaxPosterior:
    """Return a measure of C >= 2 functions, kernel means and sparse kernels, as a robust-max classifier's posterior.

    The prior's constant mean is the same for all functions and is left out: it moves no difference.

    Args:
        element: of several latent functions.
        epsilon: of the robust maximum.

    Raises:
        TypeError: as `certifiable_posterior`, but for the prior's mean.
    """
    parts, alpha, own, weights = _functions(element)
    C, M = alpha.shape
    root = np.zeros((C, M, C, M))
    root[np.arange(C), :, np.arange(C)] = own
    return RobustMaxPosterior(
        **parts,
        alpha=alpha,
        root=root.reshape(C * M, C, M),
        weights=weights.ravel(),
        operator_bound=max(1.0, 1.0 + float(weights.max())),
        epsilon=epsilon,
    )


def _functions(element: GaussianElement) -> tuple[dict[str, Any], FloatArray, FloatArray, FloatArray]:
    """Return inputs and kernel, and of every function alpha [C, M], root [C, M, M] and weights [C, M]."""
    mean, kernel, basis = element.mean, element.kernel, element.basis
    if not (isinstance(mean, KernelMean) and isinstance(kernel, SparseKernel) and basis is not None):
        raise TypeError("only a kernel mean with a sparse kernel can be certified")
    prior: gpflow.kernels.IsotropicStationary = element.prior_kernel

    def transposed_solve(right: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(basis.factor, right, lower=True, trans="T"))

    rotations, singular, _ = np.linalg.svd(np.tril(kernel.factors.numpy()))
    root = np.stack([np.ascontiguousarray(transposed_solve(each).T) for each in rotations])
    parts = {
        "X": basis.Z,
        "kernel": kernel_name(prior),
        "variance": float(prior.variance.numpy()),
        "lengthscales": expanded(prior.lengthscales.numpy(), basis.Z.shape[1]),
    }
    return parts, np.ascontiguousarray(transposed_solve(mean.weights.numpy()).T), root, singular**2 - 1.0
