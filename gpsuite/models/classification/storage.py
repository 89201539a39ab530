"""Save and load a classifier's posterior."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.storage import ModelFile

_FILE = ModelFile("gpsuite-gpc", 1, "classifier")
_ARRAYS = ("X", "lengthscales", "alpha", "root", "weights")


def save_gpc(posterior: GPCPosterior, path: Path) -> None:
    """Write a posterior; the reloaded one predicts the same to the last bit.

    Entries: `description` (JSON: format, version, kernel, variance, operator bound, link) and the posterior's arrays
    under their names.

    Args:
        posterior: with a link of `LINKS`.
        path: the file.

    Raises:
        ValueError: if the link is not one of `LINKS`.
    """
    if posterior.link.name not in LINKS or LINKS.get(posterior.link.name) != posterior.link:
        raise ValueError(f"link {posterior.link}: only {', '.join(LINKS)} can be saved")
    description = {
        "kernel": posterior.kernel,
        "variance": posterior.variance,
        "operator_bound": posterior.operator_bound,
        "link": posterior.link.name,
    }
    _FILE.write(path, description, {name: getattr(posterior, name) for name in _ARRAYS})


def load_gpc(path: Path) -> GPCPosterior:
    """Read a posterior written by `save_gpc`.

    Raises:
        ModelFileError: if the file is missing, damaged, of another format or of a newer version.
    """
    return _FILE.read(path, _rebuild)


def _rebuild(description: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> GPCPosterior:
    return GPCPosterior(
        kernel=description["kernel"],
        variance=float(description["variance"]),
        operator_bound=float(description["operator_bound"]),
        link=LINKS.get(description["link"]),
        **{name: _real(name, arrays[name]) for name in _ARRAYS},
    )


def _real(name: str, values: FloatArray) -> FloatArray:
    if values.dtype != np.float64:
        raise ValueError(f"{name} is of type {values.dtype}, expected float64")
    return values
