"""Save and load regression models: one .npz of plain arrays and a JSON description, nothing pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.errors import UserError
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression.exact import build_gpr
from gpsuite.models.regression.parameters import RegressionModel, hyperparameters_of, kind_of, spec_of
from gpsuite.models.regression.sparse import build_fitc, build_sgpr

FORMAT = "gpsuite-model"
FORMAT_VERSION = 1


class ModelFileError(UserError):
    """A model file is missing, damaged, or not one of ours."""


def save_model(model: RegressionModel, path: Path) -> None:
    """Write a model: data, structure, and every parameter at full precision.

    The file appears whole or not at all. Entries: `description` (JSON: format, version, kind, spec,
    hyperparameters, names of fixed parameters), `X` [N, D], `Y` [N, P], `Z` [M, D] for sparse models, and one
    `unconstrained<path>` per parameter, so that the reloaded model predicts the same to the last bit.

    Args:
        model: GPR, SGPR or GPRFITC built by this package.
        path: the file; its folder must exist.

    Raises:
        TypeError: for models this package does not build.
    """
    parameters = gpflow.utilities.parameter_dict(model)
    description = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "kind": kind_of(model),
        "spec": asdict(spec_of(model)),
        "hyperparameters": hyperparameters_of(model).to_dict(),
        "fixed": sorted(name for name, parameter in parameters.items() if not parameter.trainable),
    }
    X, Y = model.data
    arrays = {"description": np.array(json.dumps(description)), "X": X.numpy(), "Y": Y.numpy()}
    if hasattr(model, "inducing_variable"):
        arrays["Z"] = model.inducing_variable.Z.numpy()
    for name, parameter in parameters.items():
        arrays[f"unconstrained{name}"] = parameter.unconstrained_variable.numpy()
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, **arrays)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_model(path: Path) -> RegressionModel:
    """Read a model written by `save_model`.

    Raises:
        ModelFileError: if the file is missing, damaged, of another format or of a newer version.
    """
    arrays = _read(path)
    try:
        description = json.loads(str(arrays["description"]))
        _require_format(description)
        return _rebuild(description, arrays)
    except KeyError as error:
        raise ModelFileError(f"{path}: not a complete model file, {error} is missing") from error
    except (UserError, ValueError, TypeError) as error:
        raise ModelFileError(f"{path}: not a usable model file: {error}") from error


def _read(path: Path) -> dict[str, FloatArray]:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise ModelFileError(f"{path}: there is no such model file") from error
    except Exception as error:
        # Damaged bytes surface from zipfile, zlib or numpy as almost any exception.
        raise ModelFileError(f"{path}: not a model file, or damaged ({error})") from error


def _require_format(description: Mapping[str, Any]) -> None:
    if description["format"] != FORMAT or description["version"] != FORMAT_VERSION:
        raise ValueError(
            f"format {description['format']} version {description['version']}, "
            f"expected {FORMAT} version {FORMAT_VERSION}"
        )


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
