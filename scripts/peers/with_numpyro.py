"""NumPyro's side of `gpsuite bench peers`: one chain of the no-U-turn sampler, warm-up included."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from coregionalization import densities
from numpyro.infer import MCMC, NUTS
from protocol import Work, serve


def prepare(arrays: dict[str, np.ndarray]) -> Work:
    """Return a whole run from a draw of the prior, compiled once."""
    log_prior, log_likelihood = densities(arrays)
    chain = MCMC(
        NUTS(potential_fn=lambda u: -log_prior(u) - log_likelihood(u)),
        num_warmup=int(arrays["warm_up"]),
        num_samples=int(arrays["samples"]),
        progress_bar=False,
    )

    def work(number: int) -> dict:
        rng = np.random.default_rng([int(arrays["seed"]), number])
        begin = jnp.asarray(arrays["prior"][rng.integers(len(arrays["prior"]))])
        chain.run(jax.random.key(int(rng.integers(2**31))), init_params=begin)
        return {"draws": np.asarray(chain.get_samples()).tolist()}

    return work


if __name__ == "__main__":
    serve(prepare)
