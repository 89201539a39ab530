"""GPJax's side of `gpsuite bench peers`: objective and gradient, compiled, in float64."""

from __future__ import annotations

import gpjax
import jax
import jax.numpy as jnp
import numpy as np
from protocol import Work, serve

jax.config.update("jax_enable_x64", True)


def prepare(arrays: dict[str, np.ndarray]) -> Work:
    """Return the task's work; parameters are logarithms of variance, lengthscales and noise variance."""
    data = gpjax.Dataset(X=jnp.asarray(arrays["X"]), y=jnp.asarray(arrays["y"])[:, None])
    theta = jnp.asarray(arrays["theta"])

    def model(theta: jax.Array) -> object:
        kernel = gpjax.kernels.RBF(lengthscale=jnp.exp(theta[1:-1]), variance=jnp.exp(theta[0]))
        prior = gpjax.gps.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=kernel, jitter=0.0)
        return prior * gpjax.likelihoods.Gaussian(obs_stddev=jnp.exp(0.5 * theta[-1]))

    def likelihood(theta: jax.Array) -> jax.Array:
        return -gpjax.objectives.conjugate_mll(model(theta), data)

    def vfe(theta: jax.Array, Z: jax.Array) -> jax.Array:
        family = gpjax.variational_families.CollapsedVariationalGaussian(model(theta), Z)
        return -gpjax.objectives.collapsed_elbo(family, data)

    if str(arrays["task"]) == "likelihood":
        compiled, inputs = jax.jit(jax.value_and_grad(likelihood)), (theta,)
    else:
        compiled, inputs = jax.jit(jax.value_and_grad(vfe, argnums=(0, 1))), (theta, jnp.asarray(arrays["Z"]))

    def work(_: int) -> dict:
        value, gradient = jax.block_until_ready(compiled(*inputs))
        parts = gradient if isinstance(gradient, tuple) else (gradient,)
        return {"value": float(value), "gradient": [each for part in parts for each in part.ravel().tolist()]}

    return work


if __name__ == "__main__":
    serve(prepare)
