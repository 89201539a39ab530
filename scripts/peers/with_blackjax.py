"""BlackJAX's side of `gpsuite bench peers`: adaptive tempered SMC with Hamiltonian moves."""

from __future__ import annotations

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.smc.resampling import systematic
from coregionalization import densities
from protocol import Work, serve


def prepare(arrays: dict[str, np.ndarray]) -> Work:
    """Return a whole run: draws from the prior, given, to the posterior; one compiled loop.

    Moves, leapfrog steps and the effective share are ours; the step is the one that ours ends with.
    """
    log_prior, log_likelihood = densities(arrays)
    d = arrays["prior"].shape[1]
    parameters = {
        "step_size": jnp.asarray([float(arrays["step"])]),
        "inverse_mass_matrix": jnp.ones((1, d)),
        "num_integration_steps": jnp.asarray([int(arrays["leapfrog"])]),
    }
    sampler = blackjax.adaptive_tempered_smc(
        log_prior,
        log_likelihood,
        blackjax.hmc.build_kernel(),
        blackjax.hmc.init,
        parameters,
        systematic,
        target_ess=float(arrays["keep"]),
        num_mcmc_steps=int(arrays["moves"]),
    )

    @jax.jit
    def run(key: jax.Array, particles: jax.Array) -> jax.Array:
        def going_on(carried: tuple) -> jax.Array:
            return carried[0].tempering_param < 1.0

        def stage(carried: tuple) -> tuple:
            state, key = carried
            key, used = jax.random.split(key)
            return sampler.step(used, state)[0], key

        return jax.lax.while_loop(going_on, stage, (sampler.init(particles), key))[0].particles

    def work(number: int) -> dict:
        rng = np.random.default_rng([int(arrays["seed"]), number])
        chosen = rng.choice(len(arrays["prior"]), int(arrays["particles"]), replace=False)
        draws = run(jax.random.key(int(rng.integers(2**31))), jnp.asarray(arrays["prior"][chosen]))
        return {"draws": np.asarray(draws).tolist()}

    return work


if __name__ == "__main__":
    serve(prepare)
