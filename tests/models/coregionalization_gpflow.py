"""The linear model of coregionalisation as a GPflow model over pairs (x, p), and back."""

from __future__ import annotations

import gpflow
import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.kernels import KERNELS
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.priors import NOISE_FLOOR


def pairs(X: FloatArray, p: IntArray) -> FloatArray:
    """Return the inputs (x, p) of the GPflow model, [N, D + 1]."""
    return np.column_stack([X, p.astype(np.float64)])


def to_gpflow(model: LinearCoregionalization, u: FloatArray, observations: Observations) -> gpflow.models.GPR:
    """Build GPflow's exact regression model of the same thing.

    Its kernel is sum_l k_l(x, x') B_l[p, q] with B_l = w_l w_l' (`Coregion` of rank one, no diagonal), its noise
    variance a function of p. Its unconstrained variables are the entries of u.

    Args:
        model: numbers of outputs and latent processes, and their kernel.
        u: one vector of unconstrained hyperparameters, [d].
        observations: the data; inputs are passed as (x, p).
    """
    parameters = model.constrain(u[None])
    D = observations.X.shape[1]
    terms = []
    for latent in range(model.n_latent):
        kernel = KERNELS.get(model.kernel)(
            variance=parameters.variance[0, latent],
            lengthscales=parameters.lengthscale[0, latent],
            active_dims=list(range(D)),
        )
        coregion = gpflow.kernels.Coregion(model.n_outputs, 1, active_dims=[D])
        coregion.W = gpflow.Parameter(parameters.W[0, :, [latent]].T, trainable=model.mixing == "free")
        coregion.kappa = gpflow.Parameter(np.zeros(model.n_outputs), trainable=False)
        terms.append(kernel * coregion)
    data = (pairs(observations.X, observations.p), observations.y[:, None])
    likelihood = gpflow.likelihoods.Gaussian(variance=_noise(parameters.noise[0]))
    return gpflow.models.GPR(data, gpflow.kernels.Sum(terms), likelihood=likelihood)


def from_gpflow(model: LinearCoregionalization, regression: gpflow.models.GPR) -> FloatArray:
    """Return the unconstrained hyperparameters [d] of a model that `to_gpflow` built."""
    kernels, coregions = zip(*(term.kernels for term in regression.kernel.kernels), strict=True)
    found = Parameters(
        variance=np.array([[kernel.variance.numpy() for kernel in kernels]]),
        lengthscale=np.array([[kernel.lengthscales.numpy() for kernel in kernels]]),
        noise=np.array([[float(each.c.numpy()[0]) for each in regression.likelihood.variance.functions]]),
        W=np.stack([coregion.W.numpy()[:, 0] for coregion in coregions], axis=1)[None],
    )
    u: FloatArray = model.unconstrain(found)[0]
    return u


def _noise(variances: FloatArray) -> gpflow.functions.SwitchedFunction:
    constants = []
    for variance in variances:
        constant = gpflow.functions.Constant()
        transform = gpflow.utilities.positive(lower=NOISE_FLOOR)
        constant.c = gpflow.Parameter([variance], transform=transform)
        constants.append(constant)
    return gpflow.functions.SwitchedFunction(constants)
