"""Save and load a classifier's posterior: one .npz of plain arrays and a JSON description, nothing pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.errors import UserError
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.posterior import GPCPosterior

FORMAT = "gpsuite-gpc"
FORMAT_VERSION = 1
_ARRAYS = ("X", "lengthscales", "alpha", "root", "weights")


class GPCFileError(UserError):
    """A classifier file is missing, damaged, or not one of ours."""


def save_gpc(posterior: GPCPosterior, path: Path) -> None:
    """Write a posterior; the reloaded one predicts the same to the last bit.

    The file appears whole or not at all. Entries: `description` (JSON: format, version, kernel, variance,
    operator bound, link) and the posterior's arrays under their names.

    Args:
        posterior: with a link of `LINKS`.
        path: the file; its folder must exist.

    Raises:
        ValueError: if the link is not one of `LINKS`.
    """
    if posterior.link.name not in LINKS or LINKS.get(posterior.link.name) != posterior.link:
        raise ValueError(f"link {posterior.link}: only {', '.join(LINKS)} can be saved")
    description = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "kernel": posterior.kernel,
        "variance": posterior.variance,
        "operator_bound": posterior.operator_bound,
        "link": posterior.link.name,
    }
    arrays = {name: getattr(posterior, name) for name in _ARRAYS}
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, description=np.array(json.dumps(description)), **arrays)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_gpc(path: Path) -> GPCPosterior:
    """Read a posterior written by `save_gpc`.

    Raises:
        GPCFileError: if the file is missing, damaged, of another format or of a newer version.
    """
    entries = _read(path)
    try:
        description = json.loads(str(entries["description"]))
        return _rebuild(description, {name: _real(name, entries[name]) for name in _ARRAYS})
    except KeyError as error:
        raise GPCFileError(f"{path}: not a complete classifier file, {error} is missing") from error
    except (UserError, ValueError, TypeError) as error:
        raise GPCFileError(f"{path}: not a usable classifier file: {error}") from error


def _rebuild(description: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> GPCPosterior:
    if description["format"] != FORMAT or description["version"] != FORMAT_VERSION:
        raise ValueError(
            f"format {description['format']} version {description['version']}, "
            f"expected {FORMAT} version {FORMAT_VERSION}"
        )
    return GPCPosterior(
        kernel=description["kernel"],
        variance=float(description["variance"]),
        operator_bound=float(description["operator_bound"]),
        link=LINKS.get(description["link"]),
        **arrays,
    )


def _real(name: str, values: FloatArray) -> FloatArray:
    if values.dtype != np.float64:
        raise ValueError(f"{name} is of type {values.dtype}, expected float64")
    return values


def _read(path: Path) -> dict[str, FloatArray]:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise GPCFileError(f"{path}: there is no such classifier file") from error
    except Exception as error:
        # Damaged bytes surface from zipfile, zlib or numpy as almost any exception.
        raise GPCFileError(f"{path}: not a classifier file, or damaged ({error})") from error
