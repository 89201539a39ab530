"""GPflow kernels by name."""

from __future__ import annotations

import gpflow

from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.registry import Registry

KERNELS: Registry[type[gpflow.kernels.IsotropicStationary]] = Registry("kernel")


KERNELS.register("squared_exponential")(gpflow.kernels.SquaredExponential)
KERNELS.register("matern32")(gpflow.kernels.Matern32)
KERNELS.register("matern52")(gpflow.kernels.Matern52)


def build_kernel(
    spec: ModelSpec, hyperparameters: Hyperparameters, input_dim: int
) -> gpflow.kernels.IsotropicStationary:
    """Return the kernel of a model.

    With `spec.ard` the lengthscales are one per input. A single given value is used for each.

    Raises:
        UserError: if the kernel's name is unknown.
        ValueError: if the number of lengthscales does not fit `spec.ard` or D.
    """
    given = hyperparameters.lengthscales
    allowed = {1, input_dim} if spec.ard else {1}
    if len(given) not in allowed:
        raise ValueError(
            f"{len(given)} lengthscales given for D={input_dim} inputs with ard={spec.ard}; "
            f"allowed: {' or '.join(str(count) for count in sorted(allowed))}"
        )
    lengthscales = list(given) * (input_dim // len(given)) if spec.ard else given[0]
    return KERNELS.get(spec.kernel)(variance=hyperparameters.variance, lengthscales=lengthscales)


def kernel_name(kernel: gpflow.kernels.Kernel) -> str:
    """Return the registered name of a kernel. TypeError if its class is not in the table."""
    for name in KERNELS:
        if type(kernel) is KERNELS.get(name):
            return name
    raise TypeError(f"{type(kernel).__name__} is not one of the kernels {', '.join(KERNELS)}")
