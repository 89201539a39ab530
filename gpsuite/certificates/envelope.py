"""The two files of every certificate and saved model: NAME.json describes, NAME.npz holds plain arrays.

Both have the same format and version number. The checksum in the description covers the description and the arrays. So
a damaged file is refused. The checksum proves nothing: after changing a file anyone can compute it again.

Equation: none, a file format
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.atomic import write_described
from gpsuite.untrusted import LARGEST_ARRAYS, UnusableFileError, file_pair, read_arrays, read_description

FORMAT = "gpsuite-certificate"
OLD_FORMATS = ("gpsuite-robustness-certificate", "gpsuite-guarantee-model")
VERSION = 4  # increased when the meaning of a field or its recomputation changes

MOST_MINUTES, FOR_EVER = 10.0, 1e5  # limit of a check, unless the user allows more

Arrays = Mapping[str, npt.NDArray[Any]]


def read_envelope(
    path: Path, what: str = "certificate", again: str = "run the experiment again to make it again"
) -> dict[str, Any]:
    """Return the description of a certificate by the path of either file: NAME.npz, NAME.json or NAME.

    Args:
        path: path of either file.
        what: its expected kind, in words.
        again: advice if it has another version.

    Raises:
        UnusableFileError: if it is missing or damaged, no certificate, or of another version.
    """
    other = file_pair(path)[1]
    found = read_description(other)
    if found.get("format") not in (FORMAT, *OLD_FORMATS):
        raise UnusableFileError(f"{other}: not a {what}")
    version = found.get("version")
    if found["format"] != FORMAT or version != VERSION or isinstance(version, bool):
        known = isinstance(version, int) and not isinstance(version, bool)
        stated = f"version {version}" if known else "an unknown version"
        raise UnusableFileError(f"{other}: {what} of {stated}, this gpsuite reads {VERSION}; {again}")
    return found


def read_content(
    path: Path,
    description: dict[str, Any],
    expected: Mapping[str, tuple[type[np.generic], int]],
    largest: int = LARGEST_ARRAYS,
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a description. `expected` maps names to type and number of axes.

    Raises:
        UnusableFileError: if they are missing, or description and arrays do not match their checksum.
    """
    npz, other = file_pair(path)
    arrays = read_arrays(npz, expected, largest)
    if description.get("checksum") != checksum(description, arrays):
        raise UnusableFileError(f"{other}: damaged, description and arrays do not match their checksum")
    return arrays


def write_packed(description: Mapping[str, Any], arrays: Arrays, path: Path) -> tuple[Path, Path]:
    """Write description and arrays as `path` with the suffixes .npz and .json, each whole or not at all.

    Raises:
        OSError: if a file cannot be written.
        ValueError: if the description holds a number that is not finite.
    """
    npz, other = file_pair(path)
    write_described(npz, other, {**description, "checksum": checksum(description, arrays)}, arrays)
    return npz, other


def checksum(description: Mapping[str, Any], arrays: Arrays) -> str:
    """Return the SHA-256 of a description without its checksum, and of its arrays by name."""
    content = {name: value for name, value in description.items() if name != "checksum"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        hash_array(digest, name, arrays[name])
    return digest.hexdigest()


def hash_array(digest: Any, name: str, array: npt.NDArray[Any]) -> None:
    """Add an array's name, type, shape and values (little-endian, row by row) to a digest."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    digest.update(f" {name} {plain.dtype.str} {plain.shape} ".encode())
    digest.update(plain.tobytes())


def require_time(path: Path, needed: float, minutes: float) -> None:
    """Raise an `UnusableFileError` that names the command with a higher limit, if a check takes longer than allowed."""
    if not needed <= minutes:
        more = f"{10 ** math.ceil(math.log10(needed)):.0f}" if needed < FOR_EVER else "more than a month of minutes"
        raise UnusableFileError(
            f"{path}: checking it takes about {needed:.3g} minutes, more than the {minutes:g} allowed\n"
            f"add minutes={more} to the command to check it all the same"
        )
