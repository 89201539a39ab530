"""Our side of `gpsuite bench peers`."""

from __future__ import annotations

import numpy as np
from protocol import Work, serve

from gpsuite.methods.pac_bayes.full_gp import FullGPLikelihood
from gpsuite.methods.pac_bayes.sparse.objective import SparseLikelihoodObjective
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings, start


def prepare(arrays: dict[str, np.ndarray]) -> Work:
    """Return the task's work."""
    return {"likelihood": likelihood, "vfe": vfe, "posterior": posterior}[str(arrays["task"])](arrays)


def likelihood(arrays: dict[str, np.ndarray]) -> Work:
    """Negative log marginal likelihood of a full GP and its gradient."""
    objective = FullGPLikelihood(arrays["X"], arrays["y"])

    def work(_: int) -> dict:
        value, gradient = objective.value_and_gradient(arrays["theta"])
        return {"value": value, "gradient": gradient.tolist()}

    return work


def vfe(arrays: dict[str, np.ndarray]) -> Work:
    """Titsias' collapsed bound, negative, and its gradient in hyperparameters and inducing inputs."""
    objective = SparseLikelihoodObjective(arrays["X"], arrays["y"], True, "vfe", len(arrays["Z"]))

    def work(_: int) -> dict:
        value, d_theta, d_Z = objective.value_and_gradient(arrays["theta"], arrays["Z"])
        return {"value": value, "gradient": [*d_theta.tolist(), *d_Z.ravel().tolist()]}

    return work


def posterior(arrays: dict[str, np.ndarray]) -> Work:
    """Sequential Monte Carlo from the prior to the posterior of a coregionalisation's hyperparameters."""
    model = LinearCoregionalization(int(arrays["p"].max()) + 1)
    known = model.likelihood(Observations(arrays["X"], arrays["p"], arrays["y"]))

    def work(number: int) -> dict:
        rng = np.random.default_rng([int(arrays["seed"]), number])
        found = start(model, known, rng, SMCSettings(particles=int(arrays["particles"])))
        return {"draws": found.u.tolist()}

    return work


if __name__ == "__main__":
    serve(prepare)
