"""Training a full GP by minimising a PAC-Bayesian bound.

Equation: Reeb et al. 2018, Sec. 3
"""

from __future__ import annotations

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
from gpsuite.methods.pac_bayes.problem import Problem, Search, TrainedGP


def train_full_gp(problem: Problem, search: Search) -> TrainedGP:
    """Minimise the bound of a full GP over its hyperparameters, then round those of the kernel.

    L-BFGS-B with variance and lengthscales in the box [e^-6, e^6] of the grid.

    Raises:
        ValueError: if `search.start` has the wrong number of lengthscales.
        UserError: if the parametrisation is unknown.
    """
    bound, variables = FullGPObjective(problem), search.variables
    first = search.first(problem.n_lengthscales)

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        theta, slope = variables.to_log(u)
        value, gradient, _ = bound.value_and_gradient(theta)
        return value, gradient * slope

    found = search.run(value_and_gradient, variables.from_log(first.to_log()), search.limits(first.n_kernel))
    return TrainedGP.at(variables.to_log(found.point)[0], found)
