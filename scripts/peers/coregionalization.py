"""The posterior of a coregionalisation's hyperparameters in JAX, as `gpsuite.models.multi_output` defines it."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

NOISE_FLOOR = 1e-6

Density = Callable[[jax.Array], jax.Array]


def densities(arrays: dict[str, np.ndarray]) -> tuple[Density, Density]:
    """Return log prior (with the Jacobian, up to a constant) and log marginal likelihood of one u [d]."""
    X, y, p = arrays["X"], jnp.asarray(arrays["y"]), arrays["p"]
    P = int(p.max()) + 1
    member = jnp.asarray(np.eye(P)[p])
    distances = jnp.asarray(np.sqrt(5.0) * np.linalg.norm(X[:, None] - X[None], axis=2))
    shape = jnp.asarray([2.5] * P + [1.5] * P + [1.5] * P)
    rate = jnp.asarray([1.0] * P + [1.0] * P + [3.0] * P)
    floor = jnp.asarray([0.0] * 2 * P + [NOISE_FLOOR] * P)

    def log_prior(u: jax.Array) -> jax.Array:
        raw, weights = u[: 3 * P], u[3 * P :]
        x = floor + jax.nn.softplus(raw)
        positive = (shape - 1.0) * jnp.log(x) - rate * x + jax.nn.log_sigmoid(raw)
        return positive.sum() - 0.125 * (weights**2).sum()

    def log_likelihood(u: jax.Array) -> jax.Array:
        variance, lengthscale, noise = jnp.split(jax.nn.softplus(u[: 3 * P]), 3)
        W = member @ u[3 * P :].reshape(P, P)
        K = jnp.diag(member @ (NOISE_FLOOR + noise))
        for i in range(P):
            a = distances / lengthscale[i]
            K += variance[i] * jnp.outer(W[:, i], W[:, i]) * ((1.0 + a + a * a / 3.0) * jnp.exp(-a))
        L = jnp.linalg.cholesky(K)
        half = jax.scipy.linalg.solve_triangular(L, y, lower=True)
        value = -0.5 * half @ half - jnp.log(jnp.diag(L)).sum() - 0.5 * len(p) * jnp.log(2.0 * jnp.pi)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    return log_prior, log_likelihood
