"""Between a GPflow model and plain data: its kind, structure and hyperparameters."""

from __future__ import annotations

from typing import TypeAlias

import gpflow
import numpy as np

from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.kernels import kernel_name

RegressionModel: TypeAlias = gpflow.models.GPR | gpflow.models.SGPR | gpflow.models.GPRFITC

KINDS = {"GPR": gpflow.models.GPR, "SGPR": gpflow.models.SGPR, "GPRFITC": gpflow.models.GPRFITC}


def kind_of(model: RegressionModel) -> str:
    """Return the model's name in `KINDS`.

    Raises:
        TypeError: for any other class.
    """
    for name, kind in KINDS.items():
        if type(model) is kind:
            return name
    raise TypeError(f"{type(model).__name__} is not one of the models {', '.join(KINDS)}")


def spec_of(model: RegressionModel) -> ModelSpec:
    """Return the structure the model was built from.

    Raises:
        TypeError: if the kernel, mean or likelihood is not one this package builds.
    """
    if type(model.mean_function) is not gpflow.functions.Zero:
        raise TypeError(f"mean function {type(model.mean_function).__name__}: only the zero mean is known")
    if type(model.likelihood) is not gpflow.likelihoods.Gaussian:
        raise TypeError(f"likelihood {type(model.likelihood).__name__}: only the Gaussian is known")
    return ModelSpec(
        kernel=kernel_name(model.kernel),
        ard=bool(model.kernel.ard),
        noise_floor=float(model.likelihood.variance_lower_bound),
    )


def hyperparameters_of(model: RegressionModel) -> Hyperparameters:
    """Return the model's present hyperparameters."""
    return Hyperparameters(
        variance=float(model.kernel.variance.numpy()),
        lengthscales=tuple(float(value) for value in np.atleast_1d(model.kernel.lengthscales.numpy())),
        noise_variance=float(model.likelihood.variance.numpy()),
    )
