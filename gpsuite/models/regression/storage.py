"""Save and load regression models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression.gpflow_models import (
    RegressionModel,
    build_fitc,
    build_gpr,
    build_sgpr,
    hyperparameters_of,
    kind_of,
    spec_of,
)
from gpsuite.models.storage import ModelFile

_FILE = ModelFile("gpsuite-model", 1, "model")


def save_model(model: RegressionModel, path: Path) -> None:
    """Write a model: data, structure, and every parameter at full precision.

    Entries: `description` (JSON: format, version, kind, spec,
    hyperparameters, names of fixed parameters), `X` [N, D], `Y` [N, P], `Z` [M, D] for sparse models, and one
    `unconstrained<path>` per parameter, so that the reloaded model predicts the same to the last bit.

    Args:
        model: GPR, SGPR or GPRFITC built by this package.
        path: the file.

    Raises:
        TypeError: for models this package does not build.
    """
    parameters = gpflow.utilities.parameter_dict(model)
    description = {
        "kind": kind_of(model),
        "spec": asdict(spec_of(model)),
        "hyperparameters": hyperparameters_of(model).to_dict(),
        "fixed": sorted(name for name, parameter in parameters.items() if not parameter.trainable),
    }
    X, Y = model.data
    arrays = {"X": X.numpy(), "Y": Y.numpy()}
    if hasattr(model, "inducing_variable"):
        arrays["Z"] = model.inducing_variable.Z.numpy()
    for name, parameter in parameters.items():
        arrays[f"unconstrained{name}"] = parameter.unconstrained_variable.numpy()
    _FILE.write(path, description, arrays)


def load_model(path: Path) -> RegressionModel:
    """Read a model written by `save_model`.

    Raises:
        ModelFileError: if the file is missing, damaged, of another format or of a newer version.
    """
    return _FILE.read(path, _rebuild)


def _rebuild(description: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> RegressionModel:
    model = _build(description, arrays)
    parameters = gpflow.utilities.parameter_dict(model)
    for name, parameter in parameters.items():
        value = arrays[f"unconstrained{name}"]
        if not np.isfinite(value).all():
            raise ValueError(f"parameter {name} is not finite")
        parameter.unconstrained_variable.assign(value)
    for name in description["fixed"]:
        gpflow.set_trainable(parameters[name], False)
    return model


def _build(description: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> RegressionModel:
    spec = ModelSpec(**description["spec"])
    hyperparameters = Hyperparameters.from_dict(description["hyperparameters"])
    X, Y = arrays["X"], arrays["Y"]
    match description["kind"]:
        case "GPR":
            return build_gpr(X, Y, spec, hyperparameters)
        case "SGPR":
            return build_sgpr(X, Y, arrays["Z"], spec, hyperparameters)
        case "GPRFITC":
            return build_fitc(X, Y, arrays["Z"], spec, hyperparameters)
        case kind:
            raise ValueError(f"unknown kind of model '{kind}'")
